// Tensors of the device, as both kernels.cc and boxed.cc make and describe them.
#pragma once
#include <ATen/core/Tensor.h>

#include "shim.h"

namespace tpu {
TpuTensor describe(const at::Tensor& t);
at::Tensor wrap(const TpuResult& result);
// Copies with conversion and broadcasting, both on the device.
void assign(const at::Tensor& target, const at::Tensor& source);
}  // namespace tpu
