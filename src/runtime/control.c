#include "runtime/internal.h"
cm_status cm_control_create(cm_ctx *cx, cm_context *c, const cm_ready_step *s){(void)cx;(void)c;(void)s;return CM_OK;}
void cm_control_destroy(cm_context *c, int control){(void)c;(void)control;}
cm_status cm_run_control(cm_ctx *cx, cm_context *c, const cm_ready_step *s){(void)c;(void)s; return cm_fail(cx, CM_ERR_UNSUPPORTED, "control steps are not there yet");}
int cm_control_carried(const cm_ready_step *s, int *first_in, int *first_out){(void)s;*first_in=*first_out=0;return 0;}
cm_status cm_control_check(cm_ctx *cx, const cm_engine *e, const cm_ready_step *s){(void)cx;(void)e;(void)s;return CM_OK;}
