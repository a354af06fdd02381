// What PyTorch asks of a device besides running ops: memory, the current device, streams, events and random state.
// Nothing registers itself when the library is loaded, because an exception there would end the process;
// `tpu_register_runtime` does it and can be refused.
#include "shim.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

void tpu_register_autocast();          // autocast.cc
extern "C" int32_t tpu_is_open(void);  // src/python.rs: whether the device has been opened

namespace {
using c10::Device, c10::DeviceIndex, c10::Stream;

thread_local DeviceIndex current_device = 0;
thread_local c10::StreamId current_stream = 0;

void check_index(DeviceIndex index) {
  const int32_t count = tpu_device_count();
  TORCH_CHECK(index >= 0 && index < count, "TPU1002: device tpu:", static_cast<int>(index),
              " does not exist; hint: a process has one device, tpu:0");
}

DeviceIndex switch_device(DeviceIndex index) {
  const DeviceIndex previous = current_device;
  if (index >= 0 && index != previous) {
    check_index(index);
    current_device = index;
  }
  return previous;
}

TpuMemory memory_stats(DeviceIndex index) {
  check_index(index);
  return tpu_memory_stats(index);
}

// A DataPtr of this allocator points at a cell of the Rust core, which gets a buffer when something is written to it.
struct TpuAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    void* cell = tpu_cell_new(nbytes, current_device);
    if (cell == nullptr) tpu_check(kTpuOutOfMemory);
    return {cell, cell, &tpu_cell_free, Device(kTpu, current_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &tpu_cell_free; }
  void copy_data(void* dst, const void* src, size_t nbytes) const override {
    tpu_check(tpu_cell_copy(dst, src, nbytes));
  }
  bool initialized() override { return true; }
  // Buffers go back to the device with their last tensor, and programs in flight keep what they read.
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex index) override {
    const auto now = memory_stats(index);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      bytes->at(0).current = now.allocated;
      bytes->at(0).peak = now.peak;
    }
    for (auto* count : {&stats.allocation, &stats.active, &stats.segment}) count->at(0).current = now.buffers;
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex index) override { check_index(index); }
  void resetPeakStats(DeviceIndex index) override {
    check_index(index);
    tpu_memory_reset_peak(index);
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex index) override {
    const auto now = memory_stats(index);
    return {std::max<int64_t>(now.limit - now.allocated, 0), now.limit};
  }
};

// Host memory aligned as PJRT wants it for reading without a copy; src/pinned.rs keeps the books.
struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    void* start = tpu_pinned_new(nbytes);
    TORCH_CHECK(start || nbytes == 0, "not enough host memory for ", nbytes, " bytes of pinned memory");
    return {start, start, &tpu_pinned_free, Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &tpu_pinned_free; }
  void copy_data(void* dst, const void* src, size_t nbytes) const override { default_copy_data(dst, src, nbytes); }
  // Blocks are freed at once and copies to the device hold what they read.
  void empty_cache() override {}
  bool record_event(void* address, void*, Stream) override { return tpu_pinned_owns(address); }
  at::HostStats get_stats() override {
    int64_t raw[4] = {};
    tpu_pinned_stats(raw);
    at::HostStats stats;
    for (auto* count : {&stats.active_requests, &stats.allocations}) count->current = raw[0], count->peak = raw[1];
    for (auto* bytes : {&stats.active_bytes, &stats.allocated_bytes}) bytes->current = raw[2], bytes->peak = raw[3];
    return stats;
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override { tpu_pinned_reset_peak(); }
};

PinnedAllocator& pinned_allocator = *new PinnedAllocator();  // outlives every block

// Programs run in the order of their launch and a program waits for the buffers that it reads. So
// a stream is a name: work on two streams is never less ordered than the user asked for. An event
// is the time in nanoseconds when it was recorded.
struct TpuGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTpu; }
  DeviceIndex deviceCount() const noexcept override { return tpu_device_count(); }
  Device getDevice() const override { return Device(kTpu, current_device); }
  Device exchangeDevice(Device device) const override { return Device(kTpu, switch_device(device.index())); }
  void setDevice(Device device) const override { switch_device(device.index()); }
  void uncheckedSetDevice(Device device) const noexcept override {
    current_device = std::max<DeviceIndex>(device.index(), 0);
  }
  c10::DeviceCapability getDeviceCapability(Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = tpu_scalar_type_bits();
    return capability;
  }
  Stream getStream(Device device) const override { return Stream(Stream::UNSAFE, indexed(device), current_stream); }
  Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, indexed(device)); }
  Stream getNewStream(Device device, int) const override {
    static std::atomic<c10::StreamId> next{1};
    return Stream(Stream::UNSAFE, indexed(device), next++);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  Stream exchangeStream(Stream stream) const override {
    const auto previous = getStream(stream.device());
    current_stream = stream.id();
    return previous;
  }
  // PJRT tells when one buffer is ready, not when a queue is empty, so a query waits.
  bool queryStream(const Stream& stream) const override {
    synchronizeStream(stream);
    return true;
  }
  void synchronizeStream(const Stream& stream) const override { synchronizeDevice(stream.device_index()); }
  void synchronizeDevice(const DeviceIndex index) const override {
    tpu_check(tpu_synchronize(std::max<DeviceIndex>(index, 0)));
  }
  // An event with timing waits for the work before it, since the device gives no time stamps.
  void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag flag) const override {
    if (flag == c10::EventFlag::BACKEND_DEFAULT) synchronizeStream(stream);
    if (*event == nullptr) *event = new int64_t();
    *static_cast<int64_t*>(*event) = static_cast<int64_t>(tpu_now_ns());
  }
  void block(void*, const Stream&) const override {}
  bool queryEvent(void* event) const override {
    synchronizeEvent(event);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) synchronizeDevice(current_device);
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<int64_t*>(event); }
  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    return static_cast<double>(*static_cast<int64_t*>(end) - *static_cast<int64_t*>(start)) / 1e6;
  }

 private:
  static Device indexed(Device device) { return device.has_index() ? device : Device(kTpu, current_device); }
};

struct Philox final : c10::intrusive_ptr_target {
  uint64_t words[2] = {c10::default_rng_seed_val, 0};  // seed, offset
};

// The state lives on the host; a program that draws numbers gets seed and offset as operands.
// As a tensor it is 16 bytes, seed then offset, which is what DTensor's tracker writes and reads.
struct TpuGenerator final : c10::GeneratorImpl {
  static constexpr size_t kStateBytes = sizeof(Philox::words);

  explicit TpuGenerator(DeviceIndex index, c10::intrusive_ptr<Philox> state = c10::make_intrusive<Philox>())
      : GeneratorImpl(Device(kTpu, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}
  static c10::DeviceType device_type() { return kTpu; }
  void set_current_seed(uint64_t seed) override {
    state_->words[0] = seed;
    state_->words[1] = 0;
  }
  uint64_t current_seed() const override { return state_->words[0]; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(true));
    return current_seed();
  }
  void set_offset(uint64_t offset) override { state_->words[1] = offset; }
  uint64_t get_offset() const override { return state_->words[1]; }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK_TYPE(state.device_type() == c10::DeviceType::CPU && state.dtype() == at::kByte,
                     "RNG state must be a torch.ByteTensor");
    TORCH_CHECK(state.numel() == kStateBytes && state.is_contiguous(), "RNG state of a tpu generator must be ",
                kStateBytes, " contiguous bytes, got ", state.numel());
    std::memcpy(state_->words, state.data(), kStateBytes);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto tensor = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte);
    std::memcpy(tensor.mutable_data_ptr(), state_->words, kStateBytes);
    return tensor.getIntrusivePtr();
  }
  // Generators that share a graph-safe state advance together.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    auto* same_kind = dynamic_cast<TpuGenerator*>(other.get());
    TORCH_CHECK(same_kind, "expected the state of a tpu generator");
    state_ = same_kind->state_;
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<TpuGenerator>(device().index(), state_);
  }

 private:
  TpuGenerator* clone_impl() const override {
    auto* copy = new TpuGenerator(device().index());
    std::memcpy(copy->state_->words, state_->words, kStateBytes);
    return copy;
  }
  c10::intrusive_ptr<Philox> state_;
};

const at::Generator& default_generator(DeviceIndex index) {
  static const auto& generator = *[] {
    auto* made = new at::Generator(at::make_generator<TpuGenerator>(0));
    return made->seed(), made;
  }();
  TORCH_CHECK(index <= 0, "tpu:", static_cast<int>(index), " has no generator");
  return generator;
}

struct TpuHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return tpu_device_count() > 0; }
  bool hasPrimaryContext(DeviceIndex index) const override {
    return index >= 0 && index < tpu_device_count() && tpu_is_open();
  }
  DeviceIndex deviceCount() const override { return tpu_device_count(); }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(DeviceIndex index) const override { switch_device(index); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override { return switch_device(index); }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return switch_device(index); }
  Device getDeviceFromPtr(void*) const override { return Device(kTpu, current_device); }
  bool isPinnedPtr(const void* address) const override { return tpu_pinned_owns(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<TpuGenerator>(index < 0 ? current_device : index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    tpu_check(tpu_cell_resize(impl->mutable_data(), nbytes));
    impl->set_nbytes(nbytes);
  }
};
}  // namespace

extern "C" int32_t tpu_current_device() { return current_device; }

extern "C" void tpu_generator_set_state(int32_t index, uint64_t seed, uint64_t offset) {
  auto* impl = default_generator(index).unsafeGetGeneratorImpl();
  std::lock_guard<std::mutex> lock(impl->mutex_);
  impl->set_current_seed(seed);
  impl->set_offset(offset);
}

// Advances the generator (the default one for null) by `n` and gives the state before that.
extern "C" void tpu_generator_reserve(void* generator, uint64_t n, uint64_t* seed, uint64_t* offset) {
  auto* impl = generator ? static_cast<c10::GeneratorImpl*>(generator) : default_generator(-1).unsafeGetGeneratorImpl();
  std::lock_guard<std::mutex> lock(impl->mutex_);
  *seed = impl->current_seed();
  *offset = impl->get_offset();
  impl->set_offset(*offset + n);
}

// Null, or why PyTorch refused; the message lives as long as the process.
extern "C" const char* tpu_register_runtime() {
  static std::string refused;
  try {
    TORCH_CHECK(!at::isPrivateUse1HooksRegistered(),
                "another package has taken PyTorch's one slot for a device from outside");
    at::RegisterPrivateUse1HooksInterface(new TpuHooks());
    c10::impl::registerDeviceGuard(kTpu, new TpuGuard());
    c10::SetAllocator(kTpu, new TpuAllocator());
    at::setHostAllocator(kTpu, &pinned_allocator);
    tpu_register_autocast();
  } catch (const std::exception& error) {
    refused = error.what();
  }
  return refused.empty() ? nullptr : refused.c_str();
}
