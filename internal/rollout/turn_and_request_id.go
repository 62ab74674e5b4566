package rollout

import (
	"fmt"
	"strconv"
	"strings"
)

// TurnID names one turn of one game, or of the warm-up that a group's games begin with.
type TurnID struct {
	EpisodeRef
	WarmUp bool
	Phase  int // counted from 0
	Agent  string
}

// warmUpPhase leads the phase of a warm-up's turn.
const warmUpPhase = "warm-up-"

// String is "RUN/12/3/7/FRANCE", and "RUN/12/0/warm-up-7/FRANCE" in a warm-up.
func (t TurnID) String() string {
	lead := ""
	if t.WarmUp {
		lead = warmUpPhase
	}
	return fmt.Sprintf("%s/%s%d/%s", t.EpisodeRef, lead, t.Phase, t.Agent)
}

// RequestID is the id of an attempt's request for the turn, "RUN/12/3/7/FRANCE/1". Engines and logs have it.
func (t TurnID) RequestID(attempt int) string { return fmt.Sprintf("%s/%d", t, attempt) }

// ParseRequestID reads what RequestID has made.
func ParseRequestID(id string) (t TurnID, attempt int, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 6 {
		return TurnID{}, 0, fmt.Errorf("request id %q: want RUN/GROUP/EPISODE/PHASE/AGENT/ATTEMPT", id)
	}
	if t.EpisodeRef, err = ParseEpisodeRef(strings.Join(parts[:3], "/")); err != nil {
		return TurnID{}, 0, fmt.Errorf("request id %q: %w", id, err)
	}
	phase, warmUp := strings.CutPrefix(parts[3], warmUpPhase)
	var err1, err2 error
	t.WarmUp, t.Agent = warmUp, parts[4]
	t.Phase, err1 = strconv.Atoi(phase)
	attempt, err2 = strconv.Atoi(parts[5])
	if err1 != nil || err2 != nil {
		return TurnID{}, 0, fmt.Errorf("request id %q: phase and attempt must be whole numbers", id)
	}
	return t, attempt, nil
}
