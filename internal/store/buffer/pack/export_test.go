package pack

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Resealed is a record with the right checksum, so that what is behind it is read.
func Resealed(b []byte) []byte {
	if len(b) < recordHeader || b[0] != journalMagic {
		return b
	}
	b = slices.Clone(b)
	binary.LittleEndian.PutUint32(b[2:], crc32.Checksum(b[recordHeader:], castagnoli))
	return b
}
