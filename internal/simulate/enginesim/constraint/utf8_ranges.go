package constraint

import "unicode/utf8"

// byteRange is an inclusive range of bytes.
type byteRange struct{ lo, hi byte }

// utf8Sequences calls emit with the byte ranges whose products are exactly the UTF-8
// encodings of the runes from lo to hi; surrogates have none.
func utf8Sequences(lo, hi rune, emit func([]byteRange)) {
	const surrogateMin, surrogateMax = 0xD800, 0xDFFF
	switch {
	case lo > hi:
		return
	case lo <= surrogateMax && hi >= surrogateMin:
		utf8Sequences(lo, surrogateMin-1, emit)
		utf8Sequences(surrogateMax+1, hi, emit)
		return
	}
	for _, last := range []rune{0x7F, 0x7FF, 0xFFFF} { // one encoding length at a time
		if lo <= last && hi > last {
			utf8Sequences(lo, last, emit)
			utf8Sequences(last+1, hi, emit)
			return
		}
	}
	if hi > 0x7F { // continuation bytes must run through their whole range or not vary
		for _, mask := range []rune{0x3F, 0xFFF, 0x3FFFF} {
			if lo&^mask == hi&^mask {
				continue
			}
			if lo&mask != 0 {
				utf8Sequences(lo, lo|mask, emit)
				utf8Sequences((lo|mask)+1, hi, emit)
				return
			}
			if hi&mask != mask {
				utf8Sequences(lo, (hi&^mask)-1, emit)
				utf8Sequences(hi&^mask, hi, emit)
				return
			}
		}
	}
	var first, last [utf8.UTFMax]byte
	n := utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	ranges := make([]byteRange, n)
	for i := range n {
		ranges[i] = byteRange{first[i], last[i]}
	}
	emit(ranges)
}
