package adapterfiles

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzAdapterConfig: an adapter is let through only if it says a rank that the engines have room for, and modules.
func FuzzAdapterConfig(f *testing.F) {
	for _, config := range []string{
		`{"alpha_pattern":{},"auto_mapping":null,"base_model_name_or_path":"Qwen/Qwen2.5-7B-Instruct","bias":"none","fan_in_fan_out":false,"inference_mode":true,"init_lora_weights":true,"layers_to_transform":null,"lora_alpha":32,"lora_dropout":0.0,"modules_to_save":null,"peft_type":"LORA","r":16,"rank_pattern":{},"revision":null,"target_modules":["q_proj","v_proj"],"task_type":"CAUSAL_LM","use_dora":false,"use_rslora":false}`,
		`{"r":8,"rank_pattern":{"q_proj":64},"target_modules":"all-linear"}`,
		`{"peft_type":"IA3","r":-1,"use_dora":true,"bias":"all","modules_to_save":["lm_head"],"target_modules":[]}`,
		`{"r":9223372036854775808}`, `{"r":1e2,"target_modules":["x"]}`, `{"r":8,`, `null`, `[]`, "\xff",
	} {
		f.Add([]byte(config), 32)
	}
	f.Fuzz(func(t *testing.T, raw []byte, rank int) {
		if err := checkConfig(raw, rank); err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("refused without a word")
			}
			return
		}
		var said struct {
			Rank    int             `json:"r"`
			Ranks   map[string]int  `json:"rank_pattern"`
			Targets json.RawMessage `json:"target_modules"`
		}
		if err := json.Unmarshal(raw, &said); err != nil {
			t.Fatalf("let through %q: %v", raw, err)
		}
		if said.Rank < 1 || rank > 0 && said.Rank > rank || len(said.Targets) == 0 {
			t.Errorf("let through %q with room for rank %d", raw, rank)
		}
		for module, r := range said.Ranks {
			if rank > 0 && r > rank {
				t.Errorf("let through rank %d of %s with room for %d", r, module, rank)
			}
		}
	})
}
