#include "acl/library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "acl/symbol.h"
#include "acl/visible_devices.h"
#include "base/log.h"
#include "base/options.h"

namespace torch_npu::acl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRuntime = "libascendcl.so";
constexpr const char* kOperators = "libopapi.so";
constexpr const char* kCollectives = "libhccl.so";
constexpr const char* kProfiling = "libmsprofiler.so";
constexpr const char* kCustomOperators = "op_api/lib/libcust_opapi.so";
constexpr const char* kUsualHomes[] = {"/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest",
                                       "/usr/local/Ascend/latest"};
constexpr const char* kAdvice =
    "TORCH_NPU_LIBRARY_PATH names a folder with libascendcl.so, or is softnpu for the one that torch_npu "
    "brings along";

struct Choice {
  fs::path path;
  const char* origin;
};

std::optional<fs::path> runtime_in(const fs::path& folder) {
  std::error_code ignored;
  for (const char* inner : {"", "lib64", "lib"}) {
    const fs::path file = folder / inner / kRuntime;
    if (fs::exists(file, ignored)) return file;
  }
  return std::nullopt;
}

fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&runtime_in), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::absolute(info.dli_fname, ignored).parent_path();
}

Choice embedded() {
  const fs::path folder = own_folder();
  if (const auto file = runtime_in(folder)) return {*file, "softnpu"};
  TORCH_CHECK(false, "torch_npu found no device library: no ", kRuntime, " beside libtorch_npu.so (", folder.string(),
              ") and no installed CANN. ", kAdvice, ".");
}

Choice choose() {
  const std::string& asked = options().library_path;
  if (asked == "softnpu") return embedded();
  if (!asked.empty()) {
    std::error_code ignored;
    if (fs::is_regular_file(asked, ignored)) return {asked, "env"};
    if (const auto file = runtime_in(asked)) return {*file, "env"};
    TORCH_CHECK(false, "torch_npu found no device library: TORCH_NPU_LIBRARY_PATH is '", asked, "', where there is no ", kRuntime,
                ". ", kAdvice, ".");
  }
  if (!options().cann_home.empty()) {
    if (const auto file = runtime_in(options().cann_home)) return {*file, "cann"};
  }
  for (const char* home : kUsualHomes) {
    if (const auto file = runtime_in(home)) return {*file, "cann"};
  }
  return embedded();
}

void* open(const fs::path& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* reason = dlerror();
  TORCH_CHECK(false, "torch_npu cannot load the device library ", path.string(), ": ",
              reason == nullptr ? "unknown reason" : reason, ". The installation may be incomplete. ", kAdvice, ".");
}

// For calls before Library::get() has returned, when ACL_FN cannot be used.
template <typename Function>
Function function_of(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

#define FUNCTION_OF(library, name) function_of<decltype(&::name)>(library, #name)

std::string version_of(void* library) {
  int32_t major = 0, minor = 0, patch = 0;
  const auto get = FUNCTION_OF(library, aclrtGetVersion);
  if (get == nullptr || get(&major, &minor, &patch) != ACL_SUCCESS) return {};
  return c10::str(major, ".", minor, ".", patch);
}

std::string soc_of(void* library) {
  const auto get = FUNCTION_OF(library, aclrtGetSocName);
  const char* name = get == nullptr ? nullptr : get();
  return name == nullptr ? std::string() : std::string(name);
}

class Library {
 public:
  // Never destroyed: the device library is called until the process has ended.
  static Library& get() {
    static Library* const library = load();
    return *library;
  }

  void* runtime() const { return runtime_; }
  const LibraryInfo& info() const { return info_; }

  fs::path beside(const char* name) const { return fs::path(info_.path).parent_path() / name; }

  void* collectives() {
    const std::lock_guard lock(mutex_);
    if (collectives_ == nullptr) collectives_ = open_beside(kCollectives);
    return collectives_;
  }

  void* profiling() {
    const std::lock_guard lock(mutex_);
    if (profiling_ == nullptr) profiling_ = open_beside(kProfiling);
    return profiling_;
  }

  void* find_operator(const char* name) {
    const std::lock_guard lock(mutex_);
    if (operators_.empty()) operators_ = load_operators();
    for (void* library : operators_) {
      if (void* symbol = dlsym(library, name)) return symbol;
    }
    return nullptr;
  }

 private:
  static Library* load() {
    const VisibleDevices visible;
    auto* const library = new Library(choose());
    uint32_t count = 0;  // this call makes the library read the list while `visible` lives
    if (const auto get = FUNCTION_OF(library->runtime_, aclrtGetDeviceCount)) get(&count);
    return library;
  }

  explicit Library(const Choice& choice) : runtime_(open(choice.path)) {
    info_ = {choice.path.string(), choice.origin, version_of(runtime_), soc_of(runtime_)};
    if (logs(LogPart::kAcl, LogLevel::kInfo)) {
      log(LogPart::kAcl, LogLevel::kInfo, c10::str("the device library is ", info_.path, " (", info_.origin, ")"));
    }
    if (const auto write = FUNCTION_OF(runtime_, aclAppLog)) {
      write(ACL_INFO, __func__, __FILE_NAME__, __LINE__, "torch_npu uses %s (%s)", info_.path.c_str(), info_.origin.c_str());
    }
  }

  void* open_beside(const char* name) const {
    const fs::path file = beside(name);
    std::error_code ignored;
    TORCH_CHECK(fs::exists(file, ignored), "torch_npu uses the device library ", info_.path, ", but there is no ", name,
                " beside it: the installation is incomplete. ", kAdvice, ".");
    return open(file);
  }

  std::vector<void*> load_operators() const {
    std::vector<void*> libraries{open_beside(kOperators)};
    std::error_code ignored;
    std::string_view rest = options().custom_op_path;
    while (!rest.empty()) {
      const size_t colon = std::min(rest.find(':'), rest.size());
      const fs::path custom = fs::path(rest.substr(0, colon)) / kCustomOperators;
      if (fs::exists(custom, ignored)) libraries.push_back(open(custom));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return libraries;
  }

  void* runtime_;
  LibraryInfo info_;
  std::mutex mutex_;
  std::vector<void*> operators_;  // loaded at the first find_operator()
  void* collectives_ = nullptr;   // loaded at the first collectives()
  void* profiling_ = nullptr;     // loaded at the first profiling()
};

}  // namespace

const LibraryInfo& library_info() { return Library::get().info(); }

std::string package_version(const std::string& package) {
  constexpr std::string_view kPackages[] = {"CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL", "DRIVER"};
  TORCH_CHECK_VALUE(std::find(std::begin(kPackages), std::end(kPackages), package) != std::end(kPackages), "'", package,
                    "' is no package of CANN; they are CANN, RUNTIME, COMPILER, HCCL, TOOLKIT, OPP, OPP_KERNEL and DRIVER.");
  const auto get = FUNCTION_OF(runtime_library(), aclsysGetVersionStr);
  std::string name = package;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  char version[ACL_PKG_VERSION_MAX_SIZE] = "";
  if (get == nullptr || get(name.data(), version) != ACL_SUCCESS) return {};
  return version;
}

void* runtime_library() { return Library::get().runtime(); }

void* collective_library() { return Library::get().collectives(); }

void* profiling_library() { return Library::get().profiling(); }

bool has_collective_library() noexcept {
  try {
    std::error_code ignored;
    return fs::exists(Library::get().beside(kCollectives), ignored);
  } catch (const std::exception&) {
    return false;
  }
}

void* find_symbol(const char* name) { return dlsym(runtime_library(), name); }

void* find_op_symbol(const char* name) { return Library::get().find_operator(name); }

void* require_symbol(const char* name) {
  if (void* symbol = find_symbol(name)) return symbol;
  if (void* symbol = find_op_symbol(name)) return symbol;
  TORCH_CHECK(false, "the device library ", library_info().path, " has no function ", name,
              ": it is older than torch_npu needs, or its installation is incomplete.");
}

}  // namespace torch_npu::acl
