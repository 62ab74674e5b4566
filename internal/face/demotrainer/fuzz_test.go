package demotrainer

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzBatch: a batch that passes the check has something to train on, and figures that its record can hold.
func FuzzBatch(f *testing.F) {
	const turn = `{"prompt_token_ids":[1,2],"token_ids":[7,151643],"logprobs":[-0.25,-1e-07],"loss_mask":[1,1],"policy_version":3}`
	for _, turns := range []string{turn, turn + "," + turn, ``, `{"token_ids":[1]}`,
		`{"prompt_token_ids":[1],"token_ids":[1],"logprobs":[0],"loss_mask":[1],"policy_version":-9223372036854775808}`} {
		for _, reward := range []string{"0.5", "-1.7e308", "null"} {
			trajectory := `{"trajectory_id":"demo/1/0/A","reward":` + reward + `,"advantage":0,"turns":[` + turns + `]}`
			other := strings.Replace(trajectory, "/A", "/B", 1)
			f.Add(`{"run":"demo","step":0,"trainer_version":4,"groups":[{"ref":{"run":"demo","seq":1},"trajectories":[` +
				trajectory + `,` + other + `]}]}`)
		}
	}
	f.Add(`{"run":"demo","step":0,"groups":null}`)
	f.Add(`{"run":"demo","step":1e0}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := readBatch(strings.NewReader(text))
		if err != nil {
			return
		}
		s, err := b.check("demo", 0)
		if err != nil {
			return
		}
		if s.turns < 1 || s.tokens < int64(s.turns) || s.promptTokens < int64(s.turns) || s.staleMin < 0 ||
			s.staleMin > s.staleMax {
			t.Errorf("%s passed as %+v", text, s)
		}
		if _, err := json.Marshal(s.metrics()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}
