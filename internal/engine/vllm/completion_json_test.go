package vllm

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

func TestTokenIDsAreWholeNumbers(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`[]`: true, `[0]`: true, `[ 1 , 2147483647 ]`: true, `null`: true,
		`[2147483648]`: false, `[-1]`: false, `[-0]`: false, `[1.0]`: false, `[1e3]`: false, `[01]`: false, `["1"]`: false,
		`[null]`: false, `[[1]]`: false, `{}`: false, `[1,]`: false, `[1`: false, `1`: false, `[9999999999999999999999]`: false,
	} {
		var ids tokenIDs
		if err := json.Unmarshal([]byte(text), &ids); (err == nil) != ok {
			t.Errorf("%s: read as %v, %v", text, ids, err)
		}
		var want []int32
		if ok && (json.Unmarshal([]byte(text), &want) != nil || !slices.Equal(ids, want)) {
			t.Errorf("%s: read as %v", text, ids)
		}
	}
}

func TestLogprobsAreFinite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]float32{
		`[]`: {}, `[0,-0.5,-1.25e-3]`: {0, -0.5, -1.25e-3}, `[-9999.0]`: {-9999},
		`[null]`: nil, `[1]`: nil, `[-1e5]`: nil, `[-1e999]`: nil, `[NaN]`: nil, `["-1"]`: nil, `[-0x1p2]`: nil, `[-Infinity]`: nil,
	} {
		var got logprobs
		if err := json.Unmarshal([]byte(text), &got); (err == nil) != (want != nil) || want != nil && !slices.Equal(got, want) {
			t.Errorf("%s: read as %v, %v", text, got, err)
		}
		for _, p := range got {
			if math.IsNaN(float64(p)) {
				t.Errorf("%s: no number", text)
			}
		}
	}
}
