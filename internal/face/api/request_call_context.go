package api

import (
	"context"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout"
)

// call is one request on its way through the server.
type call struct {
	id      string
	address string                        // where it comes from
	grant   access.Grant                  // of who sent it
	again   func() (access.Grant, string) // who sent it, as far as that is known by now
	code    rollout.RefusalCode           // of the problem it was answered with

	// of what it changes
	run    rollout.RunName
	engine rollout.EngineID
	fleet  bool              // how the whole fleet is scaled
	after  map[string]string // what its handler says of it afterwards; nil: look
}

type callKey struct{}

// callOf is the call that ctx belongs to; an empty one outside of the middleware.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// requestID is the id of the request that ctx belongs to.
func requestID(ctx context.Context) string { return callOf(ctx).id }
