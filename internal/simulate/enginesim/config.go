package enginesim

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// Config is what vLLM's flags and environment set, and how the simulation runs.
type Config struct {
	Model       string // the base model's served name
	ModelPath   string // its root in /v1/models
	MaxModelLen int
	Version     string // answered by /version
	APIKey      string // guards /v1 when set

	Policy      bool // adapters are softmax policies that a trainer has trained, and decide what is answered
	RuntimeLoRA bool // VLLM_ALLOW_RUNTIME_LORA_UPDATING
	MaxLoRAs    int  // adapters in one batch
	MaxCPULoRAs int
	MaxLoRARank int

	MaxNumSeqs        int
	MaxBatchedTokens  int
	KVTokens          int
	BlockSize         int
	PrefixCaching     bool
	MaxQueuedRequests int           // beyond these, waiting and running, 503; 0 is unlimited
	KeepAlive         time.Duration // VLLM_HTTP_TIMEOUT_KEEP_ALIVE; idle connections are closed after it

	Speed      float64       // times are divided by it
	Cost       batch.Cost    // of the steps of this engine
	ColdStart  time.Duration // from start to the first answer, before division by Speed
	Seed       uint64        // of the stream that requests without a seed draw from
	FaultRoute bool          // expose /sim/faults and /sim/restart
}

// DefaultConfig is one A100-80GB that serves Qwen2.5-7B with room for eight adapters, with the
// flags that rollouts want. It runs in real time.
func DefaultConfig() Config {
	return Config{
		Model:            "Qwen/Qwen2.5-7B-Instruct",
		ModelPath:        "Qwen/Qwen2.5-7B-Instruct",
		MaxModelLen:      32768,
		Version:          "0.29.0",
		RuntimeLoRA:      true,
		MaxLoRAs:         8,
		MaxCPULoRAs:      16,
		MaxLoRARank:      64,
		MaxNumSeqs:       512,
		MaxBatchedTokens: 16384,
		KVTokens:         900_000,
		BlockSize:        16,
		PrefixCaching:    true,
		KeepAlive:        5 * time.Second,
		Speed:            1,
		Cost:             batch.A100Qwen7B(),
	}
}

// maxSpeed keeps the model's clock from overflowing within hours: it counts nanoseconds.
const maxSpeed = 1e6

// loraRanks are the values that --max-lora-rank takes.
var loraRanks = []int{1, 8, 16, 32, 64, 128, 256, 320, 512}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var faults settings.Checks
	require := faults.Require
	require(c.Model != "", "model: a name is needed")
	require(c.Speed > 0 && c.Speed <= maxSpeed, "speed %g: must be positive and at most %g", c.Speed, maxSpeed)
	require(c.Cost.LoRA >= 1, "LoRA factor %g: must be at least 1", c.Cost.LoRA)
	require(c.Cost.Step > 0, "cost of a step %v: must be positive", c.Cost.Step)
	require(c.ColdStart >= 0, "cold start %v: must not be negative", c.ColdStart)
	require(c.MaxModelLen > 0, "maximum model length %d: must be positive", c.MaxModelLen)
	require(c.MaxNumSeqs > 0, "maximum number of sequences %d: must be positive", c.MaxNumSeqs)
	require(c.MaxBatchedTokens >= c.MaxNumSeqs,
		"maximum batched tokens %d: must be at least the maximum number of sequences, %d", c.MaxBatchedTokens, c.MaxNumSeqs)
	require(c.KVTokens >= c.MaxModelLen, "KV tokens %d: must hold one request of the maximum model length, %d",
		c.KVTokens, c.MaxModelLen)
	require(c.BlockSize > 0, "block size %d: must be positive", c.BlockSize)
	require(c.MaxQueuedRequests >= 0, "maximum of queued requests %d: must not be negative", c.MaxQueuedRequests)
	require(c.MaxLoRAs > 0, "maximum LoRAs %d: must be positive", c.MaxLoRAs)
	require(c.MaxCPULoRAs >= c.MaxLoRAs, "maximum CPU LoRAs %d: must be at least the maximum LoRAs, %d",
		c.MaxCPULoRAs, c.MaxLoRAs)
	require(slices.Contains(loraRanks, c.MaxLoRARank), "maximum LoRA rank %d: must be one of %v", c.MaxLoRARank,
		loraRanks)
	return faults.Err()
}

func (c Config) limits() batch.Limits {
	return batch.Limits{
		Sequences:   c.MaxNumSeqs,
		Tokens:      c.MaxBatchedTokens,
		KV:          c.KVTokens,
		Block:       c.BlockSize,
		Adapters:    c.MaxLoRAs,
		HostAdapter: c.MaxCPULoRAs,
		NoPrefix:    !c.PrefixCaching,
	}
}
