package kubernetes_test

import (
	"testing"

	"github.com/millrace/millrace/internal/provider"
	"github.com/millrace/millrace/internal/provider/contract"
	"github.com/millrace/millrace/internal/rollout"
)

func TestContract(t *testing.T) {
	t.Parallel()
	contract.Run(t, func(t *testing.T) contract.Subject {
		c := newCluster(t)
		return contract.Subject{
			Open: func(t testing.TB, deployment string) provider.Provider { return c.open(t, deployment) },
			Running: func(_ testing.TB, deployment string, id rollout.EngineID) int {
				return c.kubelet.Running(engine(deployment, id))
			},
			Fail: func(_ testing.TB, deployment string, id rollout.EngineID) {
				c.kubelet.Kill(engine(deployment, id), true)
			},
			Full: func(t testing.TB) func() {
				cordon := func(on bool) {
					if err := c.kubelet.Cordon(t.Context(), node, on); err != nil {
						t.Error(err)
					}
				}
				cordon(true)
				return func() { cordon(false) }
			},
			Hang: func(testing.TB) func() { return c.api.Hang() },
		}
	})
}
