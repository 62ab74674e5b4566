package enginesim

import (
	"encoding/binary"
	"errors"
	"net/http"
	"testing"
)

// FuzzAdapterFiles: whatever an adapter's files hold, loading them succeeds or fails in vLLM's words, without the paths
// that vLLM keeps to itself.
func FuzzAdapterFiles(f *testing.F) {
	header := func(text string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	}
	const config = `{"peft_type":"LORA","r":16,"lora_alpha":32,"target_modules":["q_proj"],"bias":"none","use_dora":false,"modules_to_save":null}`
	for _, weights := range [][]byte{
		header(`{}`), append(header(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}}`),
			1, 2, 3, 4),
		header(`{"a":{"data_offsets":[-1,9223372036854775807]}}`), header(`[`),
		binary.LittleEndian.AppendUint64(nil, 1<<63), {1, 2}, nil,
	} {
		f.Add([]byte(config), weights, 16)
		f.Add([]byte(`{"r":64,"use_dora":true,"bias":"/home/me/x","modules_to_save":["/tmp/a/b.bin"],"lora_alpha":1,"target_modules":null}`), weights, 16)
	}
	f.Add([]byte(`{"r":"/home/me"}`), []byte(nil), 0)
	f.Add([]byte(`null`), []byte("x"), -1)
	f.Fuzz(func(t *testing.T, config, weights []byte, maxRank int) {
		for name, err := range map[string]error{"config": checkPEFT(config, maxRank),
			"weights": checkSafetensors(weights, int64(len(weights)))} {
			var answer *apiError
			switch {
			case err == nil:
			case name == "config" && (!errors.As(err, &answer) || answer.status != http.StatusInternalServerError ||
				homePath.MatchString(answer.message)):
				t.Errorf("%s %q: %v", name, config, err)
			case err.Error() == "":
				t.Errorf("%s: refused without a word", name)
			}
		}
	})
}
