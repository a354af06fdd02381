//! Schema strings of the dispatcher, and which row serves which overload.
