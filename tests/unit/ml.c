/* ml.c -- ai.onnx.ml: hostile trees, counts that do not fit, labels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define ML "ai.onnx.ml."
#define LEAF_TREE                                                                                  \
    "nodes_treeids=0,0,0 nodes_nodeids=0,1,2 nodes_featureids=0,0,0 nodes_values=0.5,0,0 "         \
    "nodes_truenodeids=1,0,0 nodes_falsenodeids=2,0,0 nodes_modes=BRANCH_LEQ,LEAF,LEAF "

static void test_trees(void **state)
{
    (void)state;
    const char *votes = "target_treeids=0,0 target_nodeids=1,2 target_ids=0,0 target_weights=1,2 ";
    char text[1024];
#define WITH(nodes) (snprintf(text, sizeof text, "%s%sn_targets=1", nodes, votes), text)
    SAME(infer(ML "TreeEnsembleRegressor", WITH(LEAF_TREE), "f32[n,3]", NULL), "f32[n,1]");
    SAME(eval(ML "TreeEnsembleRegressor", WITH(LEAF_TREE), "f32[3,1]{0,1,nan}", NULL),
         "f32[3,1]{1,2,2}");
    SAME(eval(ML "TreeEnsembleRegressor", WITH(LEAF_TREE), "f32[1,0]{}", NULL),
         "the trees look at feature 0 of 0");
    SAME(
        infer(ML "TreeEnsembleRegressor",
              WITH("nodes_treeids=0,0 nodes_nodeids=0,1 nodes_featureids=0,0 nodes_values=0,0 "
                   "nodes_truenodeids=1,0 nodes_falsenodeids=1,0 nodes_modes=BRANCH_LT,BRANCH_LT "),
              "f32[n,3]", NULL),
        "a vote is of node 2 of tree 0, which is missing");
    SAME(infer(ML "TreeEnsembleRegressor",
               WITH("nodes_treeids=0,0,0 nodes_nodeids=0,1,2 nodes_featureids=0,0,0 "
                    "nodes_values=0,0,0 nodes_truenodeids=1,0,0 nodes_falsenodeids=2,2,0 "
                    "nodes_modes=BRANCH_LT,BRANCH_LT,LEAF "),
               "f32[n,3]", NULL),
         "tree node 0 is below itself");
    SAME(infer(ML "TreeEnsembleRegressor",
               WITH("nodes_treeids=0,0,0 nodes_nodeids=0,1,1 nodes_featureids=0,0,0 "
                    "nodes_values=0,0,0 nodes_truenodeids=1,0,0 nodes_falsenodeids=1,0,0 "
                    "nodes_modes=BRANCH_LT,LEAF,LEAF "),
               "f32[n,3]", NULL),
         "tree 0 has two nodes 1");
    /* Trees in any order, the root last. */
    SAME(eval(ML "TreeEnsembleRegressor",
              WITH("nodes_treeids=0,1,0,0 nodes_nodeids=1,0,2,0 nodes_featureids=0,0,0,0 "
                   "nodes_values=0,0,0,0.5 nodes_truenodeids=0,0,0,1 nodes_falsenodeids=0,0,0,2 "
                   "nodes_modes=LEAF,LEAF,LEAF,BRANCH_LEQ "),
              "f32[2,1]{0,1}", NULL),
         "f32[2,1]{1,2}");
    SAME(infer(ML "TreeEnsembleRegressor", "n_targets=0", "f32[n,3]", NULL), "0 targets");
}

static void test_new_trees(void **state)
{
    (void)state;
    const char *nodes = "n_targets=1 nodes_featureids=0,0 nodes_modes=u8[2]{0,6} "
                        "nodes_splits=f32[2]{1,0} nodes_falseleafs=0,1 nodes_falsenodeids=1,0 "
                        "leaf_targetids=0,0 leaf_weights=f32[2]{5,6} ";
    char text[1024];
#define MORE(more) (snprintf(text, sizeof text, "%s%s", nodes, more), text)
    SAME(eval(ML "TreeEnsemble",
              MORE("tree_roots=0 nodes_trueleafs=1,1 nodes_truenodeids=0,1 "
                   "membership_values=f32[2]{3,4}"),
              "f32[3,1]{0,3,9}", NULL),
         "f32[3,1]{5,6,5}");
    SAME(infer(ML "TreeEnsemble",
               MORE("tree_roots=0 nodes_trueleafs=0,1 nodes_truenodeids=0,1 "
                    "membership_values=f32[1]{3}"),
               "f32[n,1]", NULL),
         "tree node 0 is below itself");
    SAME(infer(ML "TreeEnsemble",
               MORE("tree_roots=2 nodes_trueleafs=1,1 nodes_truenodeids=0,1 "
                    "membership_values=f32[1]{3}"),
               "f32[n,1]", NULL),
         "tree_roots[0] is 2, wanted 0 to 1");
    SAME(infer(ML "TreeEnsemble",
               MORE("tree_roots=0 nodes_trueleafs=1,1 nodes_truenodeids=0,7 "
                    "membership_values=f32[1]{3}"),
               "f32[n,1]", NULL),
         "nodes_truenodeids[1] is 7, wanted 0 to 1");
    SAME(infer(ML "TreeEnsemble", MORE("tree_roots=0 nodes_trueleafs=1,1 nodes_truenodeids=0,1"),
               "f32[n,1]", NULL),
         "membership_values holds 0 sets, wanted 1");
}

static void test_classifiers(void **state)
{
    (void)state;
    op_text_n_out = 2;
    const char *votes = LEAF_TREE "class_treeids=0,0,0,0 class_nodeids=1,1,2,2 class_ids=0,1,0,1 "
                                  "class_weights=0.9,0.1,0.2,0.8 classlabels_strings=a,b";
    SAME(eval(ML "TreeEnsembleClassifier", votes, "f32[2,1]{0,1}", NULL),
         "str[2]{a,b}; f32[2,2]{0.9,0.1,0.2,0.8}");
    SAME(infer(ML "LinearClassifier", "coefficients=1,2 classlabels_ints=0,1 intercepts=0",
               "f32[n,2]", NULL),
         "i64[n]; f32[n,2]");
    SAME(infer(ML "LinearClassifier", "coefficients=1,2,3 classlabels_ints=0,1 intercepts=0",
               "f32[n,2]", NULL),
         "3 coefficients for 1 x 2");
    SAME(infer(ML "SVMClassifier",
               "support_vectors=1,2 vectors_per_class=1,-1 coefficients=1,1 "
               "rho=0 classlabels_ints=0,1",
               "f32[n,1]", NULL),
         "the count of support vectors is wrong");
    SAME(infer(ML "SVMClassifier",
               "support_vectors=1,2 vectors_per_class=1,1 coefficients=1 rho=0 "
               "classlabels_ints=0,1",
               "f32[n,1]", NULL),
         "coefficients has 1 values, wanted 2");
}

static void test_labels(void **state)
{
    (void)state;
    SAME(infer(ML "LabelEncoder", "keys_strings=a,b values_int64s=1,2", "str[n]", NULL), "i64[n]");
    SAME(infer(ML "LabelEncoder", "keys_strings=a,b values_int64s=1", "str[n]", NULL),
         "2 keys for 1 values");
    SAME(infer(ML "LabelEncoder", "keys_strings=a values_int64s=1", "f32[n]", NULL),
         "keys of str for an input of f32");
    SAME(eval(ML "LabelEncoder", "keys_int64s=1,1 values_floats=1.5,2.5", "i64[2]{1,2}", NULL),
         "f32[2]{2.5,-0}");
    SAME(eval(ML "LabelEncoder", "keys_tensor=f64[2]{nan,0} values_tensor=i16[2]{3,4}",
              "f64[3]{-nan,-0,1}", NULL),
         "i16[3]{3,4,-1}");
    SAME(eval(ML "LabelEncoder", "classes_strings=x,y", "i64[3]{1,-1,9}", NULL),
         "str[3]{y,_Unused,_Unused}");
}

static void test_features(void **state)
{
    (void)state;
    SAME(infer(ML "ArrayFeatureExtractor", "", "f32[b,4]", "i64[1,n]", NULL), "f32[b,n]");
    SAME(eval(ML "ArrayFeatureExtractor", "", "f32[2]{1,2}", "i64[1]{-1}", NULL),
         "index -1 is out of range for 2 features");
    SAME(infer(ML "FeatureVectorizer", "", "f32[b,4]", "f32[b,n]", NULL), "f32[b,n + 4]");
    SAME(infer(ML "FeatureVectorizer", "inputdimensions=-1", "f32[b,4]", NULL),
         "inputdimensions[0] is -1");
    SAME(
        eval(ML "FeatureVectorizer", "inputdimensions=3,1", "i64[1,2]{1,2}", "i64[1,2]{3,4}", NULL),
        "f32[1,4]{1,2,0,3}");
    SAME(infer(ML "Imputer", "imputed_value_floats=1,2", "f32[n,3]", NULL),
         "imputed_value_floats: found 2, wanted 3");
    SAME(eval(ML "Scaler", "offset=1 scale=2", "i32[2]{3,4}", NULL), "f32[2]{4,6}");
    SAME(eval(ML "OneHotEncoder", "cats_int64s=1,2 zeros=0", "i64[1]{3}", NULL),
         "element 0 is in no category");
    SAME(infer(ML "Normalizer", "norm=L3", "f32[n]", NULL), "norm is none of MAX, L1, L2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_trees),  OP_TEXT_TEST(test_new_trees), OP_TEXT_TEST(test_classifiers),
        OP_TEXT_TEST(test_labels), OP_TEXT_TEST(test_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
