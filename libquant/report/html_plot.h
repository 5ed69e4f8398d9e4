// Plots and histograms as drawings in the HTML page. Colours are the page's variables: they follow its scheme.
#pragma once

#include <string>
#include <vector>

#include "libquant/report/report.h"

namespace quant {

// A figure: title, legend, the drawing. Series differ in colour, mark and dashes. Thousands of points stay small: lines
// and marks are one path for each series; past some 1,500 points, tooltips are kept on the extremes of each stretch.
std::string PlotHtml(const ReportPlot& plot);

// Small figures side by side.
std::string HistogramsHtml(const std::vector<ReportHistogram>& histograms);

}  // namespace quant
