// Tables of the HTML page. The page's script sorts and filters them.
#pragma once

#include <string>

#include "libquant/report/report.h"

namespace quant {

// All rows. Long names are elided in the middle, the whole name stands in the title. Cells with a number carry it for
// sorting where the text alone does not tell it.
std::string TableHtml(const ReportTable& table);

}  // namespace quant
