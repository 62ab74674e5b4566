package demotrainer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// peft is an adapter_config.json as the PEFT library writes it for LoRA.
type peft struct {
	PeftType      string   `json:"peft_type"`
	TaskType      string   `json:"task_type"`
	BaseModel     string   `json:"base_model_name_or_path"`
	Rank          int      `json:"r"`
	Alpha         int      `json:"lora_alpha"`
	Dropout       float64  `json:"lora_dropout"`
	TargetModules []string `json:"target_modules"`
	Bias          string   `json:"bias"`
	UseDoRA       bool     `json:"use_dora"`
	UseRSLoRA     bool     `json:"use_rslora"`
	FanInFanOut   bool     `json:"fan_in_fan_out"`
	InferenceMode bool     `json:"inference_mode"`
	ModulesToSave []string `json:"modules_to_save"`
	InitWeights   bool     `json:"init_lora_weights"`
}

func adapterConfig(model string, rank int) peft {
	return peft{
		PeftType: "LORA", TaskType: "CAUSAL_LM", BaseModel: model,
		Rank: rank, Alpha: 2 * rank, TargetModules: []string{"q_proj", "v_proj"},
		Bias: "none", InferenceMode: true, InitWeights: true,
	}
}

// Shape of the tensors: one layer of a very small model. Simulated engines load any; a real one needs its own model's.
const (
	layers = 1
	hidden = 64
)

// adapter is one that was written.
type adapter struct {
	path   string
	digest string // SHA-256 of its weights, in hexadecimal
}

// writeAdapter writes an adapter under dir. It appears whole or not at all. Training 0 has a path for each content,
// NAME-DIGEST, and keeps what is there; others use NAME, and replace other weights there.
func writeAdapter(dir, name string, cfg peft, tensors []tensor, training int64) (adapter, error) {
	if cfg.Rank < 1 {
		return adapter{}, fmt.Errorf("rank %d: want 1 or more", cfg.Rank)
	}
	config, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return adapter{}, err
	}
	weights, err := encodeSafetensors(tensors, map[string]string{"format": "pt"})
	if err != nil {
		return adapter{}, err
	}
	sum := sha256.Sum256(weights)
	a := adapter{path: filepath.Join(dir, name), digest: hex.EncodeToString(sum[:])}
	if training == 0 {
		whole := sha256.Sum256(append(append([]byte{}, config...), weights...))
		a.path += "-" + hex.EncodeToString(whole[:4])
	}
	switch there, err := os.ReadFile(filepath.Join(a.path, weightsFile)); {
	case err == nil && bytes.Equal(there, weights):
		return a, nil
	case err == nil:
		if err := os.RemoveAll(a.path); err != nil {
			return a, err
		}
	}
	err = writeWhole(a.path, map[string][]byte{"adapter_config.json": config, weightsFile: weights})
	if err != nil { // a trainer that this one replaces, or is replaced by, may have been quicker
		if there, _ := os.ReadFile(filepath.Join(a.path, weightsFile)); bytes.Equal(there, weights) {
			return a, nil
		}
	}
	return a, err
}

const weightsFile = "adapter_model.safetensors"

// writeWhole makes a directory with these files by renaming it into place.
func writeWhole(path string, files map[string][]byte) error {
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".new-"+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)                      // nothing is left of it when the rename succeeded
	if err := os.Chmod(tmp, 0o755); err != nil { // engines may run as another user
		return err
	}
	for name, content := range files {
		if err := writeSynced(filepath.Join(tmp, name), content); err != nil {
			return err
		}
	}
	return os.Rename(tmp, path)
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// loraTensors is small random weights, named as PEFT names them: a function of configuration, version and training.
func loraTensors(cfg peft, version, training int64) []tensor {
	random := rand.New(rand.NewPCG(uint64(version), uint64(cfg.Rank)+uint64(training)<<16))
	var tensors []tensor
	for layer := range layers {
		for _, module := range cfg.TargetModules {
			name := fmt.Sprintf("base_model.model.model.layers.%d.self_attn.%s", layer, module)
			tensors = append(tensors,
				randomTensor(random, strings.Join([]string{name, "lora_A", "weight"}, "."), cfg.Rank, hidden),
				randomTensor(random, strings.Join([]string{name, "lora_B", "weight"}, "."), hidden, cfg.Rank))
		}
	}
	return tensors
}

func randomTensor(random *rand.Rand, name string, rows, cols int) tensor {
	const scale = 0.01
	t := tensor{name: name, shape: []int{rows, cols}, values: make([]float32, rows*cols)}
	for i := range t.values {
		t.values[i] = float32(random.NormFloat64() * scale)
	}
	return t
}
