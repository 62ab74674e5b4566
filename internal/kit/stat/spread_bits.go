package stat

// Mix spreads the bits of a number: the last step of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), which is the same
// in every language to the last bit.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
