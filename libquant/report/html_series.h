// How series are told apart in all drawings: colour, mark and dashes, by number; the page's styles know the classes.
#pragma once

#include <string>
#include <vector>

namespace quant {

// Of eight; further series begin again.
size_t SeriesStyle(size_t index);

// One mark as a piece of a path, "M0 0..." about (x, y). Style 0's is a dot: a line of no length with round ends.
std::string MarkAt(size_t style, double x, double y);
// The attributes of a path of marks: dots are stroked, other marks are filled.
std::string MarkClass(size_t style, bool fine);

// Names with what stands for them; empty for a single name that is empty.
std::string LegendHtml(const std::vector<std::string>& names, bool lines);

}  // namespace quant
