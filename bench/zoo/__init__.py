"""zoo -- standard networks written from their published architectures, with random weights.

SPDX-License-Identifier: Apache-2.0
"""
