#include "shim.h"

extern "C" const char* tpu_register_runtime() {
  return nullptr;
}
