package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Provider gets engines as pods of one namespace.
type Provider struct {
	cfg   Config
	api   *apiClient
	nodes *nodeReader
}

var _ provider.Provider = (*Provider)(nil)

// New reads what the configuration names. It does not call the API server, which may be unavailable when a worker
// starts.
func New(cfg Config, deployment string, log *slog.Logger) (*Provider, error) {
	cfg = cfg.withDefaults(deployment)
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	if _, err := readTemplate(cfg.Template); err != nil {
		return nil, err
	}
	api, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	return &Provider{cfg: cfg, api: api, nodes: newNodeReader(cfg, api, log)}, nil
}

// Start creates the engine's pod. A pod of the same id that was stopped may still be ending: Start waits for its end,
// as long as ctx allows.
func (p *Provider) Start(ctx context.Context, id rollout.EngineID) error {
	if err := provider.ValidateID(id); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	template, err := readTemplate(p.cfg.Template)
	if err != nil {
		return err
	}
	name, manifest := podName(p.cfg.Deployment, id), template.podFor(p.cfg.Deployment, id)
	for {
		err := p.api.createPod(ctx, manifest)
		if reasonOf(err) != "AlreadyExists" {
			return explain(err, "create the pod %s of engine %s", name, id)
		}
		there, err := p.api.pod(ctx, name)
		switch {
		case reasonOf(err) == "NotFound":
			continue // it ended in between
		case err != nil:
			return explain(err, "read the pod %s of engine %s", name, id)
		case !isOurs(there, p.cfg.Deployment, id):
			return p.notOurs(there, id)
		case !isStopped(there):
			return nil
		case there.DeletionTimestamp.IsZero(): // a caller marked it as stopped, and died before deleting it
			if err := p.delete(ctx, there); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("engine %s was stopped, and its pod %s is still ending: %w", id, name, ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// Stop marks the pod as stopped and deletes it, and is done as soon as the API server has taken that.
func (p *Provider) Stop(ctx context.Context, id rollout.EngineID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := podName(p.cfg.Deployment, id)
	for {
		pod, err := p.api.pod(ctx, name)
		switch {
		case reasonOf(err) == "NotFound":
			return nil
		case err != nil:
			return explain(err, "read the pod %s of engine %s", name, id)
		case !isOurs(pod, p.cfg.Deployment, id):
			return p.notOurs(pod, id)
		}
		err = p.delete(ctx, pod)
		if reasonOf(err) != "Conflict" { // there is a new pod under the name
			return err
		}
	}
}

// delete is idempotent. Its mark tells a later List that the deletion was ours.
func (p *Provider) delete(ctx context.Context, pod *podObject) error {
	if isStopped(pod) && !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	if !isStopped(pod) {
		err := p.api.annotatePod(ctx, pod, annotationStopped, "true")
		if reasonOf(err) == "NotFound" {
			return nil
		}
		if err != nil {
			return explain(err, "mark the pod %s as stopped", pod.Name)
		}
	}
	err := p.api.deletePod(ctx, pod, p.cfg.Grace.Std())
	if reasonOf(err) == "NotFound" {
		return nil
	}
	return explain(err, "delete the pod %s", pod.Name)
}

// List lists the pods of this deployment that were not stopped. One that was marked as stopped and not deleted is among
// them: otherwise it would run on, unknown to all.
func (p *Provider) List(ctx context.Context) ([]provider.Instance, error) {
	pods, err := p.api.pods(ctx, ours(p.cfg.Deployment))
	if err != nil {
		return nil, explain(err, "list the pods of the deployment %s", p.cfg.Deployment)
	}
	pods = slices.DeleteFunc(pods, func(pod podObject) bool {
		return !isOurs(&pod, p.cfg.Deployment, "") || isStopped(&pod) && !pod.DeletionTimestamp.IsZero()
	})
	notices := p.nodes.notices(ctx, pods)
	all := make([]provider.Instance, 0, len(pods))
	for i := range pods {
		all = append(all, announced(instance(&pods[i], p.cfg), notices[pods[i].Spec.NodeName]))
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

func isStopped(pod *podObject) bool { return pod.Annotations[annotationStopped] != "" }

func (p *Provider) notOurs(pod *podObject, id rollout.EngineID) error {
	return fmt.Errorf("kubernetes: the pod %s, which engine %s would have, was not made by the deployment %s for it; it "+
		"is left as it is: remove or rename it", pod.Name, id, p.cfg.Deployment)
}
