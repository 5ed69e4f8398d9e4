#include "libquant/base/version.h"

namespace quant {

std::string_view NibbleVersion() { return NIBBLE_VERSION; }

}  // namespace quant
