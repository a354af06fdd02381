// Tensors of the device, as both kernels.cc and boxed.cc make and describe them.
#pragma once
#include <ATen/core/Tensor.h>

#include "shim.h"

namespace tpu {
TpuTensor describe(const at::Tensor& t);
at::Tensor wrap(const TpuResult& result);
// Runs a kernel on argument values, with the generator at `generator` or the default one.
void run(uint32_t kernel, const TpuArg* args, uint32_t count, void* generator, TpuResult* results, uint32_t capacity,
         uint32_t* produced, c10::ArrayRef<at::Tensor> mutated);
uint32_t copy_kernel();
}  // namespace tpu
