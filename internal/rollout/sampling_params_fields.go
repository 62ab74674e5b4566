package rollout

// Sampling is sent to the engine with every request; every field is sent, so that no
// default of the model repository applies.
type Sampling struct {
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k,omitempty"` // 0 or -1: all tokens
	MaxTokens   int     `json:"max_tokens"`
	// Vocabulary is how many token ids the model has, special and padding ones included. It is not sent: an answer with
	// an id at or above it is refused. 0: not told, and only ids that no model has are refused.
	Vocabulary int `json:"vocabulary,omitempty"`
}
