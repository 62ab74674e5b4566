package vllm

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

// Strings, numbers and whatever is skipped are taken as encoding/json takes them.
func TestJSONIsReadAsByEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"plain"`, `"\"\\\/\b\f\n\r\t\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\xfe\"", "\"\x00\"", "\"\n\"", `"\x"`, `"\u12"`, `"`,
		`0`, `-0`, `01`, `1.`, `.5`, `1.5e+10`, `1e`, `1E-3`, `+1`, `--1`, `-`, `NaN`, `Infinity`, `0x10`, `1_000`,
		`true`, `false`, `null`, `tru`, `nul`, ``, ` `, `[]`, `[1,]`, `[,1]`, `[1 2]`, `{}`, `{"a":1}`, `{"a":1,}`, `{a:1}`, `{"a"}`,
		` [ { "a" : [ null , true ] } , "b" ] `, `[[[[]]]]`, `{"a":{"b":{"c":[]}}}`, `[1]]`, `1 2`, `"a" "b"`, "\t\r\n1\n",
		"\v1", "1\x00",
	} {
		r := &jsonReader{text: []byte(text)}
		r.skip()
		if err := r.end(); (err == nil) != json.Valid([]byte(text)) {
			t.Errorf("%q: %v, and it is valid: %v", text, err, json.Valid([]byte(text)))
		}
		var want string
		if json.Unmarshal([]byte(text), &want) != nil {
			continue
		}
		r = &jsonReader{text: []byte(text)}
		if got := r.string(); r.end() != nil || got != want {
			t.Errorf("%q is read as %q, want %q: %v", text, got, want, r.err)
		}
	}
	deep := &jsonReader{text: slices.Repeat([]byte("["), 1<<20)}
	if deep.skip(); deep.end() == nil {
		t.Error("read a million brackets")
	}
}

func TestTokenIDsAreWholeNumbers(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`[]`: true, `[0]`: true, `[ 1 , 2147483647 ]`: true, `null`: true,
		`[2147483648]`: false, `[-1]`: false, `[-0]`: false, `[1.0]`: false, `[1e3]`: false, `[01]`: false, `["1"]`: false,
		`[null]`: false, `[[1]]`: false, `{}`: false, `[1,]`: false, `[1`: false, `1`: false, `[9999999999999999999999]`: false,
	} {
		r := &jsonReader{text: []byte(text)}
		ids := r.tokenIDs()
		if err := r.end(); (err == nil) != ok {
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
		r := &jsonReader{text: []byte(text)}
		got := r.logprobs()
		if err := r.end(); (err == nil) != (want != nil) || want != nil && !slices.Equal(got, want) {
			t.Errorf("%s: read as %v, %v", text, got, err)
		}
		for _, p := range got {
			if math.IsNaN(float64(p)) {
				t.Errorf("%s: no number", text)
			}
		}
	}
}
