// A flag and what it is set to, for those who tell of it.

#ifndef HYDRANT_SERVER_FLAG_SETTING_H_
#define HYDRANT_SERVER_FLAG_SETTING_H_

#include <string>

namespace hydrant::server {

struct FlagSetting {
  std::string name;
  std::string value;
  bool is_default = false;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_FLAG_SETTING_H_
