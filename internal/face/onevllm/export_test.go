package onevllm

// Kept is how many things the Handler keeps of calls, answered ones included.
func (h *Handler) Kept() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.under) + len(h.cancels) + len(h.loading)
}
