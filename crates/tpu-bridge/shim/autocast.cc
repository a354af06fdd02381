// Automatic mixed precision: the lists of ops are CUDA's, taken from PyTorch's own header.
#include "shim.h"

#include <ATen/autocast_mode.h>

// The libraries are leaked: taking the registrations back at exit would race with live threads.
void tpu_register_autocast() {
  using namespace at;  // the macros name types of this namespace
  at::autocast::set_autocast_dtype(kTpu, at::kBFloat16);

  auto& fallback = *new auto(MAKE_TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1));
  fallback.fallback(torch::CppFunction::makeFallthrough());

  auto& m = *new auto(MAKE_TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1));
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FP32_OUTPUT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_OUTPUT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)
}
