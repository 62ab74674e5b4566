package episode

import (
	"bytes"
	"encoding/json"
)

// ReadOptions reads the options of a run spec into an environment's configuration; without any it stays as it is. An
// unknown one is an error.
func ReadOptions(options json.RawMessage, into any) error {
	if len(options) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(options))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
