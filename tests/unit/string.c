/* string.c -- strings, n-grams: edges and refusals.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_split(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("StringSplit", "", "str[b,2]", NULL), "str[b,2,t.parts_0]; i64[b,2]");
    SAME(infer("StringSplit", "", "str[*]", NULL), "str[*]; i64[*]");
    SAME(eval("StringSplit", "delimiter=--", "str[2]{a----b,c}", NULL),
         "str[2,3]{a,,b,c,,}; i64[2]{3,1}");
    SAME(eval("StringSplit", "maxsplit=1", "str[2]{ a  b c ,\xC2\xA0x\xE2\x80\x83y}", NULL),
         "str[2,2]{a,b c,x,y}; i64[2]{2,2}");
    SAME(eval("StringSplit", "delimiter=-", "str[0]{}", NULL), "str[0,0]{}; i64[0]{}");
}

static void test_normalizer(void **state)
{
    (void)state;
    SAME(infer("StringNormalizer", "", "str[c]", NULL), "str[t.words_0]");
    SAME(infer("StringNormalizer", "", "str[2,c]", NULL),
         "first dim of a [1,C] input: found 2, wanted 1");
    SAME(eval("StringNormalizer", "case_change_action=UPPER",
              "str[2]{\xC3\xA9t\xC3\xA9,\xD0\xB6\xCF\x89}", NULL),
         "str[2]{\xC3\x89T\xC3\x89,\xD0\x96\xCE\xA9}");
    SAME(eval("StringNormalizer", "case_change_action=LOWER", "str[1]{A\xFFZ}", NULL),
         "str[1]{a\xFFz}");
    SAME(eval("StringNormalizer", "stopwords=A,b", "str[1,2]{a,B}", NULL), "str[1,1]{}");
    SAME(eval("StringNormalizer", "case_change_action=Title", "str[1]{a}", NULL),
         "case_change_action is 'Title', wanted NONE, LOWER or UPPER");
}

/* Patterns that make backtrackers run for ever must come back. */
static void test_regex(void **state)
{
    (void)state;
    SAME(eval("RegexFullMatch", "pattern=(a+)+b",
              "str[2]{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,aab}", NULL),
         "bool[2]{0,1}");
    SAME(eval("RegexFullMatch", "pattern=(x+x+)+y", "str[1]{xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}",
              NULL),
         "bool[1]{0}");
    SAME(eval("RegexFullMatch", "pattern=.", "str[2]{\xFF,\xC3\xA9}", NULL), "bool[2]{0,1}");
    SAME(eval("RegexFullMatch", "pattern=a|ab", "str[1]{ab}", NULL), "bool[1]{1}");
    static const char *const foreign[] = {"(?=a)", "(?<!a)b", "(a)\\1", "(?R)", "(*UTF)a", "a++",
                                          "(?>a)", "(?#c)",   "(?P=x)", "(?1)", "\\K"};
    static const char *const good[] = {"(?i)a",         "(?P<n>a)", "(?<n>a)", "[](*+]a|a",
                                       "[[:alpha:](*]", "a+?",      "\\Qa\\E", "(?i-s:A)",
                                       "[^]]",          "(?:a)"};
    char text[64];
    for (int i = 0; i < CM_COUNT(foreign); i++) {
        snprintf(text, sizeof text, "pattern=%s", foreign[i]);
        eval("RegexFullMatch", text, "str[1]{a}", NULL);
        assert_int_equal(op_text_status, CM_ERR_MODEL);
    }
    for (int i = 0; i < CM_COUNT(good); i++) {
        snprintf(text, sizeof text, "pattern=%s", good[i]);
        SAME(eval("RegexFullMatch", text, "str[1]{a}", NULL), "bool[1]{1}");
    }
    infer("RegexFullMatch", "pattern=(", "str[n]", NULL);
    assert_int_equal(op_text_status, CM_ERR_MODEL);
    eval("RegexFullMatch", "pattern=((((a{1,99}){1,99}){1,99}){1,99}){1,99}", "str[1]{a}", NULL);
    assert_int_equal(op_text_status, CM_ERR_MODEL);
}

static void test_tfidf(void **state)
{
    (void)state;
    const char *a = "mode=TFIDF min_gram_length=1 max_gram_length=2 max_skip_count=1 "
                    "ngram_counts=0,1 ngram_indexes=2,0 pool_int64s=7,7,8 weights=0.5,3";
    SAME(infer("TfIdfVectorizer", a, "i64[n,c]", NULL), "f32[n,3]");
    SAME(infer("TfIdfVectorizer", a, "str[c]", NULL), "an input of str with a pool of int64");
    SAME(eval("TfIdfVectorizer", a, "i64[4]{7,7,8,1}", NULL), "f32[3]{6,0,1}");
    SAME(eval("TfIdfVectorizer", a, "i32[1,0]{}", NULL), "f32[1,3]{0,0,0}");
    SAME(infer("TfIdfVectorizer",
               "mode=TF min_gram_length=1 max_gram_length=1 max_skip_count=0 "
               "ngram_counts=5 ngram_indexes=0 pool_int64s=7",
               "i64[4]", NULL),
         "ngram_counts: 1-grams at [5, 1) of a pool of 1");
    SAME(infer("TfIdfVectorizer",
               "mode=TF min_gram_length=1 max_gram_length=1 max_skip_count=0 "
               "ngram_counts=0 ngram_indexes=-1 pool_int64s=7",
               "i64[4]", NULL),
         "ngram_indexes[0] is -1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_split),
        OP_TEXT_TEST(test_normalizer),
        OP_TEXT_TEST(test_regex),
        OP_TEXT_TEST(test_tfidf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
