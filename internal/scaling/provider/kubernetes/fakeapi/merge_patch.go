package fakeapi

import (
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var errUID = errors.New("the UID in the precondition does not match the UID in record")

// merged is an object with a JSON merge patch (RFC 7396) applied. A patch that names another uid is refused.
func merged[T any](object *T, patch []byte, uid types.UID, of schema.GroupResource) (*T, *apierrors.StatusError) {
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if m, ok := change["metadata"].(map[string]any); ok && m["uid"] != nil && m["uid"] != string(uid) {
		return nil, apierrors.NewConflict(of, string(uid), errUID)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if text, err = json.Marshal(mergeInto(whole, change)); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var changed T
	if err := json.Unmarshal(text, &changed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &changed, nil
}

func mergeInto(whole, change map[string]any) map[string]any {
	for key, value := range change {
		part, isMap := value.(map[string]any)
		old, wasMap := whole[key].(map[string]any)
		switch {
		case value == nil:
			delete(whole, key)
		case isMap && wasMap:
			whole[key] = mergeInto(old, part)
		case isMap:
			whole[key] = mergeInto(map[string]any{}, part)
		default:
			whole[key] = value
		}
	}
	return whole
}
