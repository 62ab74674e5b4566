package workflows

// MeasureCommands has commands taken for so many bytes longer than their inputs, as a version might that encodes them
// otherwise, until back is called.
func MeasureCommands(bytes int) (back func()) {
	was := commandBytes
	commandBytes = bytes
	return func() { commandBytes = was }
}
