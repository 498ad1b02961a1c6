// What a file descriptor can show: for everything that writes to the user.
#pragma once

namespace precast {

/// Whether the descriptor is a terminal.
bool IsTerminal(int descriptor);
/// Whether to colour what is written there: a terminal that is not "dumb", and NO_COLOR is unset or
/// empty.
bool UseColor(int descriptor);
/// Columns of the terminal; 100 where there is none.
int TerminalColumns(int descriptor);

}  // namespace precast
