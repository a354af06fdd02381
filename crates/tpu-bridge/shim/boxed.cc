// One boxed bridge for every operator of the table, and the CPU fallback.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/record_function.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include "shim.h"

namespace tpu {
namespace {
constexpr int32_t kResize = 100;
constexpr uint32_t kGraph = UINT32_MAX;  // the kernel of the graph and number of results that a call begins with
uint32_t g_copy_kernel = UINT32_MAX;

void set_number(TpuArg& arg, uint8_t& tag, const at::Scalar& s) {
  if (s.isIntegral(true)) {
    tag = s.isBoolean() ? kTpuBool : kTpuInt;
    arg.v.i = s.type() == at::kUInt64 ? static_cast<int64_t>(s.toUInt64()) : s.toLong();
  } else if (s.isComplex()) {
    tag = kTpuComplex;
    const auto z = s.toComplexDouble();
    arg.v.d = z.real();
    arg.im = z.imag();
  } else {
    tag = kTpuFloat;
    arg.v.d = s.toDouble();
  }
}

// The value of a 0-dimensional CPU tensor; item() would go through the dispatcher.
at::Scalar value(const at::Tensor& t) {
  return t.is_conj() || t.is_neg() ? t.item() : at::native::_local_scalar_dense_cpu(t);
}

// Flattens a stack of IValues; owns whatever the arguments point at.
struct Frame {
  c10::SmallVector<TpuArg, 12> args;
  c10::SmallVector<TpuTensor, 12> tensors;
  std::vector<std::vector<TpuArg>> numbers;
  std::vector<at::Tensor> uploaded;
  void* generator = nullptr;

  explicit Frame(c10::ArrayRef<c10::IValue> values) : args(values.size()) {
    size_t count = 0;
    for (const auto& v : values) count += v.isTensor() ? 1 : v.isTensorList() || v.isList() ? v.toListRef().size() : 0;
    tensors.reserve(count);  // arguments point into it
    for (size_t i = 0; i < values.size(); i++) flatten(values[i], args[i]);
  }
  template <class... T>
  explicit Frame(const T&... values) : args(sizeof...(T)) {
    tensors.reserve(sizeof...(T));
    size_t i = 0;
    (flatten(values, args[i++]), ...);
  }
  void flatten(const c10::IValue& v, TpuArg& a) {
    if (v.isTensor()) return flatten(v.toTensor(), a);
    a = {};
    if (v.isNone()) return;
    if (v.isScalar()) return set_number(a, a.tag, v.toScalar());
    if (v.isString()) {
      const auto& s = v.toStringRef();
      a.tag = kTpuStr;
      a.v.p = s.data();
      a.len = static_cast<uint32_t>(s.size());
    } else if (v.isGenerator()) {
      const auto kind = v.toGenerator().device().type();
      TORCH_CHECK(kind == kTpu, "Expected a '", kTpu, "' device type for generator but found '", kind, "'");
      generator = v.toGenerator().unsafeGetGeneratorImpl();
    } else if (v.isList()) {
      list(v, a);
    }
  }
  void flatten(const at::Tensor& t, TpuArg& a) {
    a = {};
    if (!t.defined()) return;
    if (t.device().type() == kTpu || t.dim() > 0) {
      tensors.push_back(member(t, false));
      a.tag = kTpuTensor;
      a.v.p = &tensors.back();
      return;
    }
    a.tag = kTpuHost;
    a.dtype = static_cast<int8_t>(t.scalar_type());
    a.wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();
    set_number(a, a.number, value(t));
  }
  void list(const c10::IValue& v, TpuArg& a) {
    const auto items = v.toListRef();
    a.len = static_cast<uint32_t>(items.size());
    const bool optional = !v.isTensorList() && !items.empty() && (items[0].isTensor() || items[0].isNone());
    if (v.isTensorList() || optional) {
      a.tag = kTpuTensors;
      a.v.p = tensors.data() + tensors.size();
      for (const auto& item : items) tensors.push_back(item.isNone() ? TpuTensor{} : member(item.toTensor(), optional));
      return;
    }
    a.tag = v.isIntList() ? kTpuInts : v.isDoubleList() ? kTpuFloats : v.isBoolList() ? kTpuBools : kTpuNumbers;
    numbers.emplace_back(items.size());
    for (size_t i = 0; i < items.size(); i++) set_number(numbers.back()[i], numbers.back()[i].tag, items[i].toScalar());
    a.v.p = numbers.back().data();
  }
  // Indices may lie on the CPU, as for CUDA; so may 0-dimensional members of other lists.
  TpuTensor member(const at::Tensor& t, bool index) {
    if (!t.defined()) return {};
    if (t.device().type() == kTpu) return describe(t);
    TORCH_CHECK(t.is_cpu() && (index || t.dim() == 0), "Expected all tensors to be on the same device, but found at ",
                "least two devices, tpu:0 and ", t.device(), "!");
    uploaded.push_back(t.to(c10::Device(kTpu, 0)));
    return describe(uploaded.back());
  }
};

TpuContext context() {
  return {static_cast<int8_t>(c10::get_default_dtype_as_scalartype()), at::globalContext().deterministicAlgorithms()};
}

int32_t call(uint32_t kernel, c10::ArrayRef<TpuArg> args, void* generator, c10::SmallVectorImpl<TpuResult>& results) {
  RECORD_FUNCTION("tpu::call", c10::ArrayRef<c10::IValue>{});
  const auto ctx = context();
  uint32_t produced = 0;
  const auto rc = tpu_call(kernel, args.data(), static_cast<uint32_t>(args.size()), &ctx, generator, results.data(),
                           static_cast<uint32_t>(results.size()), &produced);
  results.resize(produced);
  return rc;
}

at::Tensor wrap(const TpuResult& r) {
  if (r.cell == nullptr) return {};
  c10::DataPtr data(r.cell, r.cell, &tpu_cell_free, c10::Device(kTpu, 0));
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), r.nbytes, std::move(data),
                                                       c10::GetAllocator(kTpu), true);
  const auto dtype = c10::scalarTypeToTypeMeta(static_cast<at::ScalarType>(r.dtype));
  auto t = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  const auto ndim = static_cast<size_t>(r.ndim);
  t.unsafeGetTensorImpl()->set_sizes_and_strides({r.sizes, ndim}, {r.strides, ndim});
  return t;
}

// An overload served by the table: what is written, and what is returned.
struct Boxed final : c10::OperatorKernel {
  uint32_t id;
  size_t arguments;
  bool list_result = false;
  c10::SmallVector<uint8_t, 2> mutated;
  c10::SmallVector<int8_t, 4> returns;  // argument that it is, -1: a new tensor, -2: an int that nothing reads

  Boxed(uint32_t id, const c10::FunctionSchema& schema) : id(id), arguments(schema.arguments().size()) {
    for (uint8_t i = 0; i < arguments; i++)
      if (schema.arguments()[i].alias_info() && schema.arguments()[i].alias_info()->isWrite()) mutated.push_back(i);
    // `out=` comes first, as in a row's results.
    std::stable_partition(mutated.begin(), mutated.end(), [&](auto i) { return schema.arguments()[i].kwarg_only(); });
    size_t next = 0;
    for (const auto& r : schema.returns()) {
      const auto* alias = r.alias_info();
      const bool written = alias && alias->isWrite() && next < mutated.size();
      const bool number = r.type()->kind() == c10::TypeKind::IntType;
      returns.push_back(static_cast<int8_t>(written ? mutated[next++] : number ? -2 : -1));
      list_result |= r.type()->kind() == c10::TypeKind::ListType;
    }
  }
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const auto values = torch::jit::last(*stack, arguments);
    c10::SmallVector<at::Tensor, 2> targets;
    for (auto i : mutated) collect(values[i], targets);
    for (const auto& t : targets) check_overlap(t, values);
    c10::SmallVector<TpuResult, 8> results;
    // A second time when `out=` tensors had to be resized: the first description is outdated.
    while (!run(Frame(values), targets, results)) continue;
    finish(stack, results);
  }
  bool run(const Frame& frame, c10::ArrayRef<at::Tensor> targets, c10::SmallVector<TpuResult, 8>& results) const {
    // Operators on lists give at most as many tensors as their lists have members.
    size_t most = id == kGraph ? static_cast<size_t>(frame.args[1].v.i) : returns.size() + targets.size();
    for (const auto& a : frame.args) most += list_result ? a.len : 0;
    results.resize(most);
    const auto rc = call(id, frame.args, frame.generator, results);
    if (rc != kResize) return tpu_check(rc), true;
    for (const auto& r : results) {
      const at::IntArrayRef sizes(r.sizes, static_cast<size_t>(r.ndim)), strides(r.strides, sizes.size());
      if (at::native::resize_output(targets[r.index], sizes)) targets[r.index].as_strided_(sizes, strides);
    }
    return false;
  }
  static void check_overlap(const at::Tensor& target, c10::ArrayRef<c10::IValue> values) {
    at::assert_no_internal_overlap(target);
    for (const auto& v : values) {
      if (v.isTensor() && v.toTensor().defined()) at::assert_no_partial_overlap(target, v.toTensor());
    }
  }
  static void collect(const c10::IValue& v, c10::SmallVector<at::Tensor, 2>& out) {
    for (const auto& item : v.isTensorList() ? v.toListRef() : c10::ArrayRef<c10::IValue>(v)) {
      if (item.isTensor() && item.toTensor().defined()) out.push_back(item.toTensor());
    }
  }
  void finish(torch::jit::Stack* stack, c10::ArrayRef<TpuResult> results) const {
    c10::SmallVector<c10::IValue, 4> out;
    size_t next = 0;
    auto values = torch::jit::last(*stack, arguments);
    for (auto r : returns) {
      if (r >= 0 || r == -2) {
        out.push_back(r == -2 ? c10::IValue(int64_t{0}) : values[r]);
      } else if (list_result) {
        c10::List<at::Tensor> list;
        while (next < results.size()) list.push_back(wrap(results[next++]));
        out.emplace_back(std::move(list));
      } else {
        out.emplace_back(next < results.size() ? wrap(results[next++]) : at::Tensor());
      }
    }
    torch::jit::drop(*stack, arguments);
    for (auto& v : out) stack->push_back(std::move(v));
  }
};

// The same for operators with one new tensor as their result and arguments of the types A: to box a tensor is to count
// it once more, for which PyTorch takes the interpreter's lock.
template <class... A>
struct Typed {
  Boxed kernel;

  at::Tensor operator()(A... args) const {
    c10::SmallVector<TpuResult, 8> results;
    kernel.run(Frame(args...), {}, results);
    return results.empty() ? at::Tensor() : wrap(results[0]);
  }
  static bool serves(const Boxed& kernel, const c10::FunctionSchema& schema) {
    static const auto own = c10::inferFunctionSchemaFlattenedReturns<at::Tensor(A...)>();
    const bool one = kernel.mutated.empty() && !kernel.list_result && schema.returns().size() == 1;
    const auto same = [](const auto& x, const auto& y) { return *x.real_type() == *y.type(); };
    return one && std::ranges::equal(own.arguments(), schema.arguments(), same);
  }
};

using T = const at::Tensor&;
using S = const at::Scalar&;
template <class... Signatures>
torch::CppFunction kernel_for(const c10::FunctionSchema& schema, uint32_t id, std::tuple<Signatures...>*) {
  std::optional<torch::CppFunction> made;
  const auto types = schema.cloneWithRealTypes(false);
  const Boxed kernel(id, schema);
  (void)((Signatures::serves(kernel, types) && (made.emplace(Signatures{kernel}), true)) || ...);
  return made ? std::move(*made) : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Boxed>(kernel));
}
using Common = std::tuple<Typed<T>, Typed<T, T>, Typed<T, T, T>, Typed<T, S>, Typed<T, T, S>, Typed<T, S, S>,
                          Typed<T, T, T, S>, Typed<T, T, T, S, S>, Typed<T, int64_t, bool>, Typed<T, int64_t, T>,
                          Typed<T, int64_t, T, bool>, Typed<T, T, int64_t, bool, bool>,
                          Typed<T, at::OptionalIntArrayRef, bool, std::optional<at::ScalarType>>>;

// Runs an op on the CPU. If it draws random numbers, from a CPU generator that ours seeds.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  uint64_t bytes = 0, seed = 0, offset = 0;
  for (auto& v : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (v.isTensor() && v.toTensor().defined() && v.toTensor().layout() == at::kStrided) bytes += v.toTensor().nbytes();
    if (!v.isGenerator() || v.toGenerator().device().type() != kTpu) continue;
    tpu_generator_reserve(v.toGenerator().unsafeGetGeneratorImpl(), 1, &seed, &offset);
    const_cast<c10::IValue&>(v) = c10::IValue(at::detail::createCPUGenerator(seed * 0x9E3779B97F4A7C15u + offset));
  }
  const auto name = c10::toString(op.operator_name());
  uint8_t first = 0;
  tpu_check(tpu_fallback(name.c_str(), bytes, &first));
  if (first) TORCH_WARN(tpu_last_error());
  at::native::cpu_fallback(op, stack);
}

void unsupported(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "TPU2003: ", op.operator_name(),
                              ": the device \"tpu\" has dense tensors only, not ", keys.highestPriorityTypeId(),
                              "; hint: use .to_dense() or .dequantize(), or the CPU");
}

}  // namespace

TpuTensor describe(const at::Tensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == at::kStrided, "TPU2003: tensors of layout ", t.layout(),
                              " are not supported on the device \"tpu\"; hint: use .to_dense()");
  auto* impl = t.unsafeGetTensorImpl();
  const auto sizes = impl->sizes(), strides = impl->strides();
  void* cell = const_cast<void*>(impl->unsafe_storage().unsafeGetStorageImpl()->data());
  const auto dtype = static_cast<int8_t>(impl->dtype().toScalarType());
  const auto flags = static_cast<uint8_t>((t.is_conj() ? 1 : 0) | (t.is_neg() ? 2 : 0));
  return {cell, sizes.data(), strides.data(), impl->storage_offset(), static_cast<int32_t>(sizes.size()), dtype, flags};
}

void assign(const at::Tensor& target, const at::Tensor& source) {
  const TpuTensor to = describe(target), from = describe(source);
  TpuArg args[3] = {};
  args[0].tag = args[1].tag = kTpuTensor;
  args[0].v.p = &to;
  args[1].v.p = &from;
  args[2].tag = kTpuBool;
  c10::SmallVector<TpuResult, 1> none;
  tpu_check(call(g_copy_kernel, {args, 3}, nullptr, none));
}
}  // namespace tpu

void tpu_check(int32_t rc) {
  if (rc == 0) return;
  const char* message = tpu_last_error();
  switch (rc) {
    case 2: TORCH_CHECK_INDEX(false, message);
    case 3: TORCH_CHECK_VALUE(false, message);
    case 4: TORCH_CHECK_TYPE(false, message);
    case 5: TORCH_CHECK_NOT_IMPLEMENTED(false, message);
    case 6: TORCH_CHECK_WITH(OutOfMemoryError, false, message);
    case 7: TORCH_CHECK_LINALG(false, message);
    default: TORCH_CHECK(false, message);
  }
}

extern "C" uint8_t tpu_precision() { return static_cast<uint8_t>(at::globalContext().float32MatmulPrecision()); }

// Runs `body` as an event of the profiler.
extern "C" void tpu_span(const char* name, void (*body)(void*), void* argument) {
  RECORD_FUNCTION(name, c10::ArrayRef<c10::IValue>{});
  body(argument);
}

// Registers a kernel for every overload that the table serves.
extern "C" void tpu_register_kernels() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::OperatorHandle> ops;
  std::vector<std::string> texts;
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) continue;
    ops.push_back(*op);
    texts.push_back(c10::toString(op->schema()));
  }
  std::vector<const char*> schemas;
  for (const auto& t : texts) schemas.push_back(t.c_str());
  std::vector<uint32_t> ids(ops.size());
  tpu_plan(schemas.data(), static_cast<uint32_t>(schemas.size()), ids.data());
  for (size_t i = 0; i < ops.size(); i++) {
    const auto& name = ops[i].operator_name();
    if (name.name == "aten::copy_") tpu::g_copy_kernel = ids[i];
    // Typed kernels stay, and so does the composite that copies between devices.
    const bool ours = ids[i] != UINT32_MAX && name.name != "aten::copy_" && name.name != "aten::copy";
    if (!ours || ops[i].hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    library.impl(c10::toString(name).c_str(), tpu::kernel_for(ops[i].schema(), ids[i], static_cast<tpu::Common*>(nullptr)));
  }
  using Key = c10::DispatchKey;
  const auto* schema =
      "run_graph(int graph, int results, int[] numbers, Tensor[] read, Tensor(a!)[] written) -> Tensor[]";
  static torch::Library graphs(torch::Library::DEF, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  auto graph = std::make_unique<tpu::Boxed>(tpu::kGraph, torch::jit::parseSchema(schema));
  graphs.def(schema);
  graphs.impl("run_graph", torch::dispatch(Key::CompositeExplicitAutograd,
                                           torch::CppFunction::makeFromBoxedFunctor(std::move(graph))));
  static std::vector<torch::Library> all;
  // The copy kernels read and write through the bits themselves; resolving them first would recurse.
  for (auto key : {Key::Conjugate, Key::Negative}) {
    all.emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    for (auto* n : {"_copy_from", "_copy_from_and_resize"}) all.back().impl(n, torch::CppFunction::makeFallthrough());
  }
  for (auto key : {Key::PrivateUse1, Key::SparsePrivateUse1, Key::SparseCsrPrivateUse1, Key::QuantizedPrivateUse1}) {
    all.emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    all.back().fallback(key == Key::PrivateUse1 ? torch::CppFunction::makeFromBoxedFunction<&tpu::fallback>()
                                                : torch::CppFunction::makeFromBoxedFunction<&tpu::unsupported>());
  }
}
