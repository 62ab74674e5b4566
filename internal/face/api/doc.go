// Package api is the HTTP side of Millrace for trainers and operators: runs, steps, batches, policy
// versions, engines, events. It translates and waits; what may be trained on is decided by the
// buffer, what happens next by the workflows, both behind the interfaces in server_dependency_interfaces.go.
//
// Every answer that is not a success is a problem document (RFC 9457), made in errors_as_problem_documents.go from
// the refusals of package rollout. The trainer's hot path, claiming a batch, touches only the
// store: the workflow is told afterwards and may be unavailable.
//
// Start reading at Server, then claim_and_show_batch_routes.go. The document served at /openapi.json is generated from
// the same types that the handlers use.
package api
