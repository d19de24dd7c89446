#include "server/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <istream>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/byte_size.h"

namespace hydrant::server {
namespace {

using engine::EvictionPolicyKind;

std::string EnvironmentName(const std::string& flag) {
  std::string name = "HYDRANT_" + flag;
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

bool IsGiven(const std::string& flag, const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--" + flag || arg.rfind("--" + flag + "=", 0) == 0) return true;
  }
  return false;
}

bool IsExcluded(const CLI::Option& option, const std::vector<std::string>& args) {
  for (const CLI::Option* other : option.get_excludes()) {
    for (const std::string& flag : other->get_lnames()) {
      if (IsGiven(flag, args)) return true;
    }
  }
  return false;
}

bool IsExcludedByParsed(const CLI::Option& option) {
  const auto excludes = option.get_excludes();
  return std::any_of(excludes.begin(), excludes.end(),
                     [](const CLI::Option* other) { return other->count() > 0; });
}

// Leaves out of the file what flags that were parsed before it exclude.
class ConfigFile : public CLI::ConfigBase {
 public:
  explicit ConfigFile(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigBase::from_config(input);
    std::erase_if(items, [&](const CLI::ConfigItem& item) {
      const CLI::Option* option = app_.get_option_no_throw("--" + item.name);
      return option != nullptr && IsExcludedByParsed(*option);
    });
    return items;
  }

 private:
  const CLI::App& app_;
};

}  // namespace

std::optional<int> ParseFlags(CLI::App& app, std::vector<std::string> args) {
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // as CLI11 wants them
    app.parse(std::move(reversed));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
}

std::vector<std::string> WithEnvironment(const CLI::App& app, std::vector<std::string> args) {
  const std::vector<std::string> given = args;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& flag : option->get_lnames()) {
      const char* value = std::getenv(EnvironmentName(flag).c_str());
      if (flag == "help" || value == nullptr || *value == '\0') continue;
      if (IsGiven(flag, given) || IsExcluded(*option, given)) continue;
      args.push_back(absl::StrCat("--", flag, "=", value));
    }
  }
  return args;
}

void AddConfigFile(CLI::App& app) {
  app.set_config("--config", "", "A file of lines \"flag = value\"");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.config_formatter(std::make_shared<ConfigFile>(app));
}

std::vector<FlagSetting> EffectiveFlags(const CLI::App& app) {
  std::vector<FlagSetting> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    const std::string& name = option->get_lnames()[0];
    if (option->count() > 0) {
      flags.push_back({name, CLI::detail::join(option->results(), ","), false});
    } else if (!option->get_default_str().empty() && !IsExcludedByParsed(*option)) {
      flags.push_back({name, option->get_default_str(), true});
    }
  }
  return flags;
}

CLI::Validator NumberIn(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return std::string();
        return absl::StrCat("'", text, "' is not a number from ", low, " to ", high);
      },
      absl::StrCat("in [", low, " - ", high, "]"));
}

CLI::Option* AddByteSize(CLI::App& app, const std::string& name, int64_t& target,
                         const std::string& default_text, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [&target](const std::string& text) { target = ParseByteSize(text).value(); }, help)
      ->type_name("SIZE")
      ->check(CLI::Validator(
          [](std::string& text) {
            return ParseByteSize(text) ? std::string()
                                       : absl::StrCat("'", text,
                                                      "' is not a size; write bytes, or a number "
                                                      "with KB, MB, GB, KiB, MiB or GiB");
          },
          ""))
      ->default_str(default_text);
}

void AddModelFlags(CLI::App& app, engine::EngineOptions& options) {
  app.add_option("--model", options.model_path,
                 "The checkpoint: a .gguf file, or a Hugging Face directory")
      ->type_name("PATH");
  app.add_option("--device", options.device, "Where it computes; reference is plain and slow")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "reference"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Compute threads; 0: all cores it may use")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  const std::map<std::string, std::optional<kernels::WeightDType>> weight_dtypes = {
      {"auto", std::nullopt},
      {"f32", kernels::WeightDType::kF32},
      {"bf16", kernels::WeightDType::kBF16},
      {"int8", kernels::WeightDType::kInt8},
      {"int4", kernels::WeightDType::kInt4}};
  app.add_option_function<std::string>(
         "--weight_dtype",
         [&options, weight_dtypes](const std::string& name) {
           options.weight_dtype = weight_dtypes.at(name);
         },
         "Numeric path of the weights; f32 is exact; int4 keeps what a 4-bit file has, and is "
         "faster than int8 for one stream, slower for many streams and long prompts")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}))
      ->default_str("auto");
  std::map<std::string, kernels::KvDType> kv_dtypes;
  for (const kernels::KvDType dtype : kernels::kKvDTypes) {
    kv_dtypes.emplace(kernels::KvDTypeName(dtype), dtype);
  }
  app.add_option_function<std::string>(
         "--kv_cache_dtype",
         [&options, kv_dtypes](const std::string& name) { options.kv_dtype = kv_dtypes.at(name); },
         "Numbers in the KV cache; int8, int4 and kivi2 hold about 1.8, 2.5 and 3.7 times the "
         "tokens of bf16, at a growing loss")
      ->check(CLI::IsMember(kv_dtypes))
      ->default_str("bf16");
  AddByteSize(app, "--kv_cache_bytes", options.kv_cache_bytes, "auto",
              "Memory of the KV cache, such as 100MB or 4GiB. Default: a quarter of the memory "
              "that is left, at most 4GiB; on a GPU, what is free beside the weights");
  app.add_option("--max_model_len", options.max_model_len,
                 "Most tokens of prompt and answer; 0: the checkpoint's")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

CLI::Option* AddEvictionPolicy(CLI::App& app, std::function<void(EvictionPolicyKind)> set,
                               const std::string& help) {
  const std::map<std::string, EvictionPolicyKind> policies = {
      {"full", EvictionPolicyKind::kFull},
      {"window", EvictionPolicyKind::kWindow},
      {"streaming", EvictionPolicyKind::kStreaming},
      {"h2o", EvictionPolicyKind::kH2O}};
  return app
      .add_option_function<std::string>(
          "--eviction",
          [policies, set = std::move(set)](const std::string& name) { set(policies.at(name)); },
          help)
      ->transform(CLI::IsMember(policies, CLI::ignore_case).description(""))
      ->type_name("POLICY");
}

}  // namespace hydrant::server
