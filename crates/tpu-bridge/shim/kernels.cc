// Kernels that are not computation: factories, views, storage, copies between host and device.
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include "shim.h"

namespace tpu {
namespace {
using at::Tensor;
using c10::IntArrayRef;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Allocator* allocator(std::optional<at::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const auto index = device ? device->index() : 0;
  TORCH_CHECK(index <= 0, "TPU1002: device tpu:", static_cast<int>(index),
              " does not exist; hint: a process has one device, tpu:0");
  return c10::GetAllocator(kTpu);
}

Tensor empty(IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device> device, std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, allocator(device, pin_memory), kKeys, c10::dtype_or_default(dtype), format);
}
Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool> pin_memory) {
  auto* from = allocator(device, pin_memory);
  return at::detail::empty_strided_generic(size, stride, from, kKeys, c10::dtype_or_default(dtype));
}
void grow(at::TensorImpl* self) {
  const auto needed = at::detail::computeStorageNbytes(self->sizes(), self->strides(), self->itemsize(),
                                                       static_cast<size_t>(self->storage_offset()));
  const auto& storage = self->unsafe_storage();
  if (self->numel() == 0 || needed <= storage.nbytes()) return;
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  if (storage.data() == nullptr) {
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(c10::GetAllocator(kTpu)->allocate(needed));
  } else {
    tpu_check(tpu_cell_resize(storage.mutable_data(), needed));
  }
  storage.set_nbytes(needed);
}

const Tensor& resize(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  for (auto d : size) TORCH_CHECK(d >= 0, "Trying to create tensor with negative dimension ", d, ": ", size);
  if (impl->sizes() != size) {
    impl->set_sizes_contiguous(size);
    grow(impl);
  }
  if (format) impl->empty_tensor_restride(*format);
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  TORCH_CHECK(source.device().type() == kTpu, "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(),
              "\".  This is no longer allowed; the devices must match.");
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  const bool contiguous = stride.empty() && !size.empty();
  contiguous ? impl->set_sizes_contiguous(size) : impl->set_sizes_and_strides(size, stride);
  grow(impl);
  return self;
}
Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  const auto numel = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {numel}, {1});
}
Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}
Tensor& set_nothing(Tensor& self) {
  at::Storage storage(at::Storage::use_byte_size_t(), 0, c10::GetAllocator(kTpu)->allocate(0),
                      c10::GetAllocator(kTpu), true);
  return set_storage(self, std::move(storage), 0, {0}, {1});
}

// The tensor's elements in host memory, without a copy where the device's memory is the host's.
Tensor on_host(const Tensor& self) {
  const auto options = self.options().device(at::kCPU);
  if (self.numel() == 0) return at::empty_strided(self.sizes(), self.strides(), options);
  const void* data = nullptr;
  void* guard = nullptr;
  tpu_check(tpu_cell_host(self.storage().data(), &data, &guard));
  auto* start = static_cast<const char*>(data) + self.storage_offset() * self.itemsize();
  auto host = at::from_blob(
      const_cast<char*>(start), self.sizes(), self.strides(), [guard](void*) { tpu_host_release(guard); }, options);
  if (self.is_conj()) host._set_conj(true);
  if (self.is_neg()) host._set_neg(true);
  return host;
}

bool is_whole(const Tensor& self) {
  return self.storage_offset() == 0 && self.is_non_overlapping_and_dense() && !self.is_conj() && !self.is_neg() &&
         self.nbytes() == self.storage().nbytes();
}

void device_to_device(const Tensor& self, const Tensor& target) {
  at::assert_no_internal_overlap(target);
  const auto source = self.expand(target.sizes());
  const TpuTensor to = describe(target), from = describe(source);
  uint8_t shared = 0;
  tpu_check(tpu_share(&to, &from, &shared));
  if (!shared) assign(target, source);
}

void host_to_device(const Tensor& self, const Tensor& target) {
  if (!is_whole(target)) {
    auto staged = at::empty(self.sizes(), self.options().device(target.device()));
    host_to_device(self, staged);
    return device_to_device(staged, target);
  }
  auto source = self.expand(target.sizes());
  const bool ready = source.scalar_type() == target.scalar_type() && source.strides() == target.strides() &&
                     !source.is_conj() && !source.is_neg();
  if (!ready) {
    auto dense = at::empty_strided(target.sizes(), target.strides(), target.options().device(at::kCPU));
    source = dense.copy_(source);
  }
  const TpuTensor to = describe(target);
  tpu_check(tpu_cell_upload(&to, source.const_data_ptr(), target.nbytes()));
}

Tensor copy_from(const Tensor& self, const Tensor& target, bool /*non_blocking*/) {
  if (target.numel() == 0) return target;
  const bool from = self.device().type() == kTpu, to = target.device().type() == kTpu;
  TORCH_CHECK((from || self.is_cpu()) && (to || target.is_cpu()), "TPU2001: cannot copy between ", self.device(),
              " and ", target.device(), "; hint: copy through the CPU");
  if (from && to) {
    device_to_device(self, target);
  } else if (to) {
    host_to_device(self, target);
  } else {
    const_cast<Tensor&>(target).copy_(on_host(self));
  }
  return target;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& target) {
  if (self.sizes() != target.sizes()) target.resize_(self.sizes());
  return copy_from(self, target, false);
}
at::Scalar local_scalar_dense(const Tensor& self) { return on_host(self).item(); }

bool equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Expected all tensors to be on the same device, but found at least two ",
              "devices, ", self.device(), " and ", other.device(), "!");
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

// Module.to() sets `param.data`, and so keeps tied parameters tied, between tensors that this allows.
bool compatible(const Tensor& self, const Tensor& from) {
  const auto dense = [](const Tensor& t) {
    return t.layout() == at::kStrided && (t.is_cpu() || t.device().type() == kTpu);
  };
  return (dense(self) && dense(from)) || self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

// Attention is one program (row `_scaled_dot_product_fused_attention_overrideable`), unless that has no derivative.
int64_t sdp_choice(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                   double, bool, std::optional<double>, bool) {
  const auto fits = [&](const Tensor& t) { return t.dim() == 4 && t.sym_numel() > 0 && t.dtype() == query.dtype(); };
  const bool fused = query.is_floating_point() && fits(query) && fits(key) && fits(value) &&
                     !(mask && mask->defined() && mask->requires_grad());
  return static_cast<int64_t>(fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

void record_stream(Tensor& /*self*/, c10::Stream /*stream*/) {}
}  // namespace
}  // namespace tpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpu::sdp_choice)
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", tpu::empty);
  m.impl("empty_strided", tpu::empty_strided);
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("alias", at::native::alias);
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("resize_", tpu::resize);
  m.impl("set_", tpu::set_nothing);
  m.impl("set_.source_Tensor", tpu::set_tensor);
  m.impl("set_.source_Storage", tpu::set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", tpu::set_storage);
  m.impl("_copy_from", tpu::copy_from);
  m.impl("_copy_from_and_resize", tpu::copy_from_and_resize);
  m.impl("_local_scalar_dense", tpu::local_scalar_dense);
  m.impl("equal", tpu::equal);
  m.impl("is_set_to", at::native::is_set_to);
  m.impl("record_stream", tpu::record_stream);
  m.impl("_has_compatible_shallow_copy_type", tpu::compatible);
}
