package buffer

import (
	"encoding/json"

	"github.com/millrace/millrace/internal/rollout/steprecord"
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

// addResults sums up the groups of a step about to be completed, and packs that: it is kept longer than they.
func addResults(v *steprecord.ServiceView) ([]byte, error) {
	v.Results = v.Played()
	text, err := json.Marshal(v.Results)
	if err != nil || len(v.Results) == 0 {
		return nil, err
	}
	return pack.Bytes(text)
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
