package batchrows

import (
	"encoding/json"
	"testing"

	"github.com/millrace/millrace/internal/face/api"
)

// TestOf: a turn whose prompt begins with all that was before lengthens the row, any other begins a new one.
func TestOf(t *testing.T) {
	t.Parallel()
	const head = `{"run":"demo","step":3,"groups":[{"ref":{"run":"demo","seq":7},"constraints":[{"kind":"regex","pattern":"a|b"}],` +
		`"trajectories":[{"trajectory_id":"demo/7/1/X","sample":1,"agent":"X","reward":0.5,"advantage":-1.5,"truncated":true,"turns":[`
	const row = `{"run":"demo","step":3,"group":7,"sample":1,"agent":"X","trajectory_id":"demo/7/1/X","sequence_index":`
	const of = `,"reward":0.5,"advantage":-1.5,"truncated":true,"policy_version":`
	const first = `{"phase":"a","prompt_token_ids":[1,2],"token_ids":[3,4],"logprobs":[-0.1,-0.2],"loss_mask":[1,0],` +
		`"policy_version":8,"finish_reason":"stop","reward":0.25,"text":"A","constraint_index":0}`
	const firstTurn = `{"begin":2,"end":4,"phase":"a","policy_version":8,"finish_reason":"stop","reward":0.25,"text":"A",` +
		`"constraint":{"kind":"regex","pattern":"a|b"}}`
	later := func(prompt, version string) string {
		return `{"phase":"b","prompt_token_ids":` + prompt + `,"token_ids":[6],"logprobs":[-0.3],"loss_mask":[1],` +
			`"policy_version":` + version + `,"finish_reason":"length","reward":0,"text":"B"}`
	}
	turn := func(begin, end, version string) string {
		return `{"begin":` + begin + `,"end":` + end + `,"phase":"b","policy_version":` + version +
			`,"finish_reason":"length","reward":0,"text":"B","constraint":null}`
	}
	for _, tt := range []struct{ name, turns, want string }{
		{"no turn", ``, `null`},
		{"one", first, `[` + row + `0` + of + `8,"token_ids":[1,2,3,4],"loss_mask":[0,0,1,0],"logprobs":[0,0,-0.1,-0.2],` +
			`"turns":[` + firstTurn + `]}]`},
		{"continued by an older version", first + `,` + later(`[1,2,3,4,5]`, `7`), `[` + row + `0` + of +
			`7,"token_ids":[1,2,3,4,5,6],"loss_mask":[0,0,1,0,0,1],"logprobs":[0,0,-0.1,-0.2,0,-0.3],` +
			`"policy_versions":[-1,-1,8,8,-1,7],"turns":[` + firstTurn + `,` + turn("5", "6", "7") + `]}]`},
		{"continued at once by the same", first + `,` + later(`[1,2,3,4]`, `8`), `[` + row + `0` + of +
			`8,"token_ids":[1,2,3,4,6],"loss_mask":[0,0,1,0,1],"logprobs":[0,0,-0.1,-0.2,-0.3],` +
			`"turns":[` + firstTurn + `,` + turn("4", "5", "8") + `]}]`},
		{"another prompt, continued", first + `,` + later(`[1,2,3,9]`, `9`) + `,` + later(`[1,2,3,9,6]`, `9`),
			`[` + row + `0` + of + `8,"token_ids":[1,2,3,4],"loss_mask":[0,0,1,0],"logprobs":[0,0,-0.1,-0.2],` +
				`"turns":[` + firstTurn + `]},` + row + `1` + of + `9,"token_ids":[1,2,3,9,6,6],"loss_mask":[0,0,0,0,1,1],` +
				`"logprobs":[0,0,0,0,-0.3,-0.3],"turns":[` + turn("4", "5", "9") + `,` + turn("5", "6", "9") + `]}]`},
		{"a shorter prompt", first + `,` + later(`[1,2,3]`, `8`), `[` + row + `0` + of +
			`8,"token_ids":[1,2,3,4],"loss_mask":[0,0,1,0],"logprobs":[0,0,-0.1,-0.2],"turns":[` + firstTurn + `]},` + row + `1` +
			of + `8,"token_ids":[1,2,3,6],"loss_mask":[0,0,0,1],"logprobs":[0,0,0,-0.3],"turns":[` + turn("3", "4", "8") + `]}]`},
	} {
		var batch api.Batch
		if err := json.Unmarshal([]byte(head+tt.turns+`]}]}]}`), &batch); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(Of(&batch)); err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
}
