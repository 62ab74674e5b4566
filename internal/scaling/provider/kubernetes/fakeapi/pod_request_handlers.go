package fakeapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podResource = schema.GroupResource{Resource: "pods"}

func (s *Server) findPod(r *http.Request) (string, *core.Pod, *apierrors.StatusError) {
	key := r.PathValue("namespace") + "/" + r.PathValue("name")
	if pod := s.pods[key]; pod != nil {
		return key, pod, nil
	}
	return key, nil, apierrors.NewNotFound(podResource, r.PathValue("name"))
}

// listPods answers in pages, in the order of the keys, as the real one does.
func (s *Server) listPods(r *http.Request, _ []byte) (any, *apierrors.StatusError) {
	q := r.URL.Query()
	selector, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	list := core.PodList{TypeMeta: meta.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	for _, key := range slices.Sorted(maps.Keys(s.pods)) {
		pod := s.pods[key]
		namespace := r.PathValue("namespace")
		if namespace != "" && pod.Namespace != namespace || key <= q.Get("continue") ||
			!selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if limit > 0 && len(list.Items) == limit {
			last := list.Items[limit-1]
			list.Continue = last.Namespace + "/" + last.Name
			break
		}
		list.Items = append(list.Items, *pod)
	}
	return list, nil
}

func (s *Server) createPod(r *http.Request, body []byte) (any, *apierrors.StatusError) {
	var pod core.Pod
	read := json.NewDecoder(bytes.NewReader(body))
	if r.URL.Query().Get("fieldValidation") == meta.FieldValidationStrict {
		read.DisallowUnknownFields()
	}
	if err := read.Decode(&pod); err != nil {
		return nil, apierrors.NewBadRequest("strict decoding error: " + err.Error())
	}
	key := r.PathValue("namespace") + "/" + pod.Name
	if s.pods[key] != nil {
		return nil, apierrors.NewAlreadyExists(podResource, pod.Name)
	}
	pod.Namespace = r.PathValue("namespace")
	pod.Status = core.PodStatus{Phase: core.PodPending}
	s.stamp(&pod.ObjectMeta)
	s.pods[key] = &pod
	return pod, nil
}

func (s *Server) getPod(r *http.Request, _ []byte) (any, *apierrors.StatusError) {
	_, pod, err := s.findPod(r)
	return pod, err
}

func (s *Server) patchPod(r *http.Request, body []byte) (any, *apierrors.StatusError) {
	key, pod, err := s.findPod(r)
	if err != nil {
		return nil, err
	}
	changed, err := merged(pod, body, pod.UID, podResource)
	if err != nil {
		return nil, err
	}
	s.version++
	changed.ResourceVersion = strconv.Itoa(s.version)
	s.pods[key] = changed
	return changed, nil
}

// deletePod: a pod that no node has, or whose containers have ended, is gone at once; otherwise its kubelet ends it and
// deletes it without grace.
func (s *Server) deletePod(r *http.Request, body []byte) (any, *apierrors.StatusError) {
	key, pod, err := s.findPod(r)
	if err != nil {
		return nil, err
	}
	var options meta.DeleteOptions
	_ = json.Unmarshal(body, &options)
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != pod.UID {
		return nil, apierrors.NewConflict(podResource, pod.Name, errUID)
	}
	return pod, s.end(key, pod, options.GracePeriodSeconds)
}

func (s *Server) end(key string, pod *core.Pod, seconds *int64) *apierrors.StatusError {
	grace := int64(30)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if seconds != nil {
		grace = *seconds
	}
	over := pod.Status.Phase == core.PodFailed || pod.Status.Phase == core.PodSucceeded
	if over || pod.Spec.NodeName == "" || grace == 0 {
		delete(s.pods, key)
		return nil
	}
	at := meta.NewTime(time.Now().Truncate(time.Second).Add(time.Duration(grace) * time.Second))
	if pod.DeletionTimestamp == nil || at.Before(pod.DeletionTimestamp) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
	}
	return nil
}

func (s *Server) bindPod(r *http.Request, body []byte) (any, *apierrors.StatusError) {
	_, pod, err := s.findPod(r)
	if err != nil {
		return nil, err
	}
	var binding core.Binding
	if err := json.Unmarshal(body, &binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	pod.Spec.NodeName = binding.Target.Name
	setCondition(pod, core.PodCondition{Type: core.PodScheduled, Status: core.ConditionTrue})
	return meta.Status{Status: meta.StatusSuccess}, nil
}

func (s *Server) evictPod(r *http.Request, _ []byte) (any, *apierrors.StatusError) {
	key, pod, err := s.findPod(r)
	if err != nil {
		return nil, err
	}
	setCondition(pod, core.PodCondition{
		Type: core.DisruptionTarget, Status: core.ConditionTrue, Reason: "EvictionByEvictionAPI",
		Message: "Eviction API: evicting", LastTransitionTime: meta.Now(),
	})
	return meta.Status{Status: meta.StatusSuccess}, s.end(key, pod, nil)
}

func setCondition(pod *core.Pod, c core.PodCondition) {
	pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(old core.PodCondition) bool {
		return strings.EqualFold(string(old.Type), string(c.Type))
	}), c)
}
