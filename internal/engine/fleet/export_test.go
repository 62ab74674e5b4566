package fleet

import "context"

// Look is one look of a guard.
func (g *RedisLossGuard) Look(ctx context.Context) error { return g.look(ctx) }
