package enginesim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
)

// digestedBytes is how much of the weights decides an adapter's distribution. Training changes
// all of them, so the beginning tells versions apart.
const digestedBytes = 1 << 20

// readAdapter checks an adapter's directory as vLLM's worker does when it loads one, in its
// words, and returns a digest of the weights.
func readAdapter(name, path string, maxRank int) (digest string, err error) {
	raw, err := os.ReadFile(filepath.Join(path, "adapter_config.json"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", noAdapter(name, path)
	}
	if err != nil {
		return "", addLoRAFailed("%v", err)
	}
	if err := checkPEFT(raw, maxRank); err != nil {
		return "", err
	}
	for _, file := range []string{"adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt"} {
		weights, err := os.Open(filepath.Join(path, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", addLoRAFailed("%v", err)
		}
		defer weights.Close()
		return readWeights(weights, strings.HasSuffix(file, ".safetensors"))
	}
	return "", addLoRAFailed("<path> doesn't contain tensors")
}

// readPolicy reads the policy that an adapter holds.
func readPolicy(path string) (*pseudolm.Policy, error) {
	file, err := os.ReadFile(filepath.Join(path, "adapter_model.safetensors"))
	if err != nil {
		return nil, addLoRAFailed("%v", err)
	}
	policy, err := pseudolm.ReadPolicy(file)
	if err != nil {
		return nil, addLoRAFailed("%v; this engine was started with --policy", err)
	}
	return policy, nil
}

// peftConfig is what matters of PEFT's adapter_config.json.
type peftConfig struct {
	Rank          int      `json:"r"`
	Bias          string   `json:"bias"`
	UseDoRA       bool     `json:"use_dora"`
	ModulesToSave []string `json:"modules_to_save"`
}

// checkPEFT collects everything that is wrong, as vLLM does.
func checkPEFT(raw []byte, maxRank int) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return addLoRAFailed("%v", err)
	}
	var missing []string
	for _, required := range []string{"lora_alpha", "r", "target_modules"} {
		if _, ok := fields[required]; !ok {
			missing = append(missing, "'"+required+"'")
		}
	}
	if missing != nil {
		return addLoRAFailed("Missing required configuration fields: {%s}", strings.Join(missing, ", "))
	}
	cfg := peftConfig{Bias: "none"}
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return addLoRAFailed("%v", err)
	}
	var wrong []string
	if len(cfg.ModulesToSave) > 0 {
		wrong = append(wrong, "vLLM only supports modules_to_save being None.")
	}
	if cfg.UseDoRA {
		wrong = append(wrong, "vLLM does not yet support DoRA.")
	}
	if cfg.Rank < 1 {
		wrong = append(wrong, fmt.Sprintf("LoRA rank `r` must be a positive integer, got %d.", cfg.Rank))
	}
	if cfg.Rank > maxRank {
		wrong = append(wrong, fmt.Sprintf("LoRA rank %d is greater than max_lora_rank %d.", cfg.Rank, maxRank))
	}
	if cfg.Bias != "none" {
		wrong = append(wrong, "Adapter bias is not supported.")
	}
	if wrong != nil {
		return addLoRAFailed("%s", strings.Join(wrong, " "))
	}
	return nil
}

// readWeights digests a weights file; a safetensors file must have a whole, sound header.
func readWeights(weights *os.File, safetensors bool) (digest string, err error) {
	head, err := io.ReadAll(io.LimitReader(weights, digestedBytes))
	if err != nil {
		return "", addLoRAFailed("%v", err)
	}
	if safetensors {
		info, err := weights.Stat()
		if err != nil {
			return "", addLoRAFailed("%v", err)
		}
		if err := checkSafetensors(head, info.Size()); err != nil {
			return "", addLoRAFailed("Error while deserializing header: %v", err)
		}
	}
	hash := sha256.Sum256(head)
	return string(hash[:]), nil
}

// checkSafetensors reads the header: its length in 8 bytes, then JSON that gives each tensor's
// place in the rest of the file.
func checkSafetensors(head []byte, size int64) error {
	const lengthBytes = 8
	if len(head) < lengthBytes {
		return errors.New("header too small")
	}
	length := binary.LittleEndian.Uint64(head)
	if length > uint64(size-lengthBytes) {
		return errors.New("invalid header length")
	}
	if length > uint64(len(head)-lengthBytes) {
		return nil // a header of more than digestedBytes is taken as it is
	}
	var tensors map[string]struct {
		Offsets []int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(head[lengthBytes:lengthBytes+length], &tensors); err != nil {
		return errors.New("invalid JSON in header")
	}
	data := size - lengthBytes - int64(length)
	for _, t := range tensors {
		if slices.ContainsFunc(t.Offsets, func(o int64) bool { return o < 0 || o > data }) {
			return errors.New("incomplete metadata, file not fully covered")
		}
	}
	return nil
}

func noAdapter(name, path string) error {
	return &apiError{http.StatusNotFound, kindNotFound, "",
		withoutPaths(fmt.Sprintf("Loading lora %s failed: No adapter found for %s", name, path))}
}

// homePath and filePath are what vLLM takes for paths that are nobody's business; others stay in its errors.
var (
	homePath = regexp.MustCompile(`/(?:home|usr|opt|var|tmp|root|lib|mnt|srv)(?:/[\w.\-]+)+`)
	filePath = regexp.MustCompile(`(?:/[\w\-]+)+/[\w\-]+\.\w+`)
)

func withoutPaths(message string) string {
	return filePath.ReplaceAllString(homePath.ReplaceAllString(message, "<path>"), "<path>")
}

func addLoRAFailed(format string, args ...any) error {
	return &apiError{http.StatusInternalServerError, kindInternal, "", "Call to add_lora method failed: " +
		withoutPaths(fmt.Sprintf(format, args...))}
}
