package buffer

import (
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// packedViews packs the group views of a step about to be completed; nil when they are packed already. They never
// change once the step is granted.
func packedViews(views string) ([]byte, error) {
	if !isJSON(views) {
		return nil, nil
	}
	return pack.Bytes([]byte(views))
}

func unpackViews(s string) (string, error) {
	if s == "" || isJSON(s) {
		return s, nil
	}
	views, err := pack.ReadBytes([]byte(s))
	return string(views), err
}

// isJSON reports whether bytes are a JSON list: no text begins with the first byte of packed ones.
func isJSON(s string) bool { return s != "" && s[0] == '[' }
