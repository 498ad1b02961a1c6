// What a file descriptor can show: for everything that writes to the user.
#pragma once

#include <string_view>

namespace precast {

/// Whether the descriptor is a terminal.
bool IsTerminal(int descriptor);
/// Whether to colour what is written there: a terminal that is not "dumb", and NO_COLOR is unset or
/// empty.
bool UseColor(int descriptor);
/// Writes to standard error. What cannot be written there is lost: there is nowhere to say so.
void WriteError(std::string_view text) noexcept;
/// Columns of the terminal; 100 where there is none.
int TerminalColumns(int descriptor);

}  // namespace precast
