#include "shim.h"

#include <c10/util/Exception.h>

void tpu_check(int32_t rc) {
  TORCH_CHECK(rc == 0, tpu_last_error());
}
