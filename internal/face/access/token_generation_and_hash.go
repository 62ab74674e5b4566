package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Hash is the SHA-256 of a token.
type Hash [sha256.Size]byte

// HashOf hashes a token.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }

// ParseHash reads 64 hexadecimal digits.
func ParseHash(text string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("want the 64 hexadecimal digits of a SHA-256, as millrace config token prints them")
	}
	copy(h[:], b)
	return h, nil
}

// String is 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// NewToken draws an unguessable token.
func NewToken() string { return "mr_" + rand.Text() + rand.Text() }
