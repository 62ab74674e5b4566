package exec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// listed is an engine as a list command describes it.
type listed struct {
	provider.Instance
	Deployment string `json:"deployment"`
}

// readList reads {"engines": [...]}, or the list alone. Engines of another deployment are left out, where the command
// says whose they are; so a command that lists too much does no harm.
func readList(out []byte, deployment string, maxInFlight int) ([]provider.Instance, error) {
	var whole struct {
		Engines *[]listed `json:"engines"`
	}
	var entries []listed
	if text := strings.TrimSpace(string(out)); strings.HasPrefix(text, "[") {
		if err := json.Unmarshal(out, &entries); err != nil {
			return nil, wrongList(out, err)
		}
	} else {
		if err := json.Unmarshal(out, &whole); err != nil {
			return nil, wrongList(out, err)
		}
		if whole.Engines == nil {
			return nil, wrongList(out, errors.New("there is no engines in it"))
		}
		entries = *whole.Engines
	}
	all := make([]provider.Instance, 0, len(entries))
	for i, e := range entries {
		if e.Deployment != "" && e.Deployment != deployment {
			continue
		}
		if err := checkListed(e); err != nil {
			return nil, wrongList(out, fmt.Errorf("engine %d: %w", i, err))
		}
		e.MaxInFlight = cmp.Or(e.MaxInFlight, maxInFlight)
		all = append(all, e.Instance)
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i := 1; i < len(all); i++ {
		if all[i].ID == all[i-1].ID {
			return nil, wrongList(out, fmt.Errorf("engine %s is in it twice", all[i].ID))
		}
	}
	return all, nil
}

func checkListed(e listed) error {
	if err := provider.ValidateID(e.ID); err != nil {
		return err
	}
	switch e.State {
	case enginestate.EngineRunning:
		if e.URL == "" {
			return fmt.Errorf("%s is running and has no url; list it as ordered until its address is known", e.ID)
		}
	case enginestate.EngineOrdered, enginestate.EngineStopping, enginestate.EngineFailed:
	default:
		return fmt.Errorf("%s has the state %q; want ordered, running, stopping or failed", e.ID, e.State)
	}
	if e.URL != "" && !strings.HasPrefix(e.URL, "http://") && !strings.HasPrefix(e.URL, "https://") {
		return fmt.Errorf("%s has the url %q; want http://host:port, without /v1", e.ID, e.URL)
	}
	if e.MaxInFlight < 0 {
		return fmt.Errorf("%s has max_in_flight %d", e.ID, e.MaxInFlight)
	}
	return nil
}

func wrongList(out []byte, err error) error {
	return fmt.Errorf(`the list command's answer is not {"engines": [{"id", "url", "state"}, ...]}: %w; it began with %q`,
		err, string(out[:min(len(out), 120)]))
}
