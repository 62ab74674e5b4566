package kubernetes_test

import (
	"testing"

	"github.com/millrace/millrace/internal/scaling/provider/contract"
)

func TestContract(t *testing.T) {
	t.Parallel()
	contract.Run(t, func(t *testing.T) contract.Subject { return newCluster(t, 0).subject() })
}
