package memory

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/contract"
)

func TestContract(t *testing.T) {
	t.Parallel()
	contract.Run(t, func(*testing.T) contract.Subject {
		cloud := NewCloud()
		return contract.Subject{
			Open: func(_ testing.TB, deployment string) provider.Provider { return cloud.Provider(deployment) },
			Running: func(_ testing.TB, deployment string, id rollout.EngineID) int {
				return cloud.Running(deployment, id)
			},
			Fail: func(_ testing.TB, deployment string, id rollout.EngineID) { cloud.Fail(deployment, id, "killed") },
			Full: func(testing.TB) func() {
				cloud.SetCapacity(0)
				return func() { cloud.SetCapacity(-1) }
			},
			Hang: func(testing.TB) func() { return cloud.Hang() },
		}
	})
}
