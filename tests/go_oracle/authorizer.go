package main

import (
	"context"
	"errors"
	"hash/crc32"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// answers is the whole policy of one step. The kind of a check picks a list, the checksum of what
// it asks picks from the list: both sides compute it, neither needs the other's list of checks.
type answers struct {
	Salt     string   `json:"salt"`
	Action   []answer `json:"action"`
	Identity []answer `json:"identity"`
	Legacy   []answer `json:"legacy"`
}

type answer struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	Error    string `json:"error"`
}

var decisions = map[string]authorizer.Decision{
	"allow":      authorizer.DecisionAllow,
	"deny":       authorizer.DecisionDeny,
	"no-opinion": authorizer.DecisionNoOpinion,
}

func (a *answers) to(check *check) answer {
	list := a.Identity
	switch {
	case check.Verb == "impersonate":
		list = a.Legacy
	case strings.HasPrefix(string(check.Verb), "impersonate-on:"):
		list = a.Action
	}
	path := check.Path
	if check.IsResource {
		path = ""
	}
	asked := strings.Join([]string{
		a.Salt, string(check.Verb), string(check.Group), string(check.Resource),
		string(check.Subresource), string(check.Namespace), string(check.Name), string(path),
	}, "\x00")
	return list[crc32.ChecksumIEEE([]byte(asked))%uint32(len(list))]
}

// check is one question of the filter, as an authorizer sees it.
type check struct {
	User identity `json:"user"`
	attributes
}

type attributes struct {
	Verb        text               `json:"verb"`
	Group       text               `json:"group"`
	Version     text               `json:"version"`
	Resource    text               `json:"resource"`
	Subresource text               `json:"subresource"`
	Namespace   text               `json:"namespace"`
	Name        text               `json:"name"`
	Path        text               `json:"path"`
	IsResource  bool               `json:"isResource"`
	Fields      []fieldRequirement `json:"fields"`
	FieldsError bool               `json:"fieldsError"`
	Labels      []labelRequirement `json:"labels"`
	LabelsError bool               `json:"labelsError"`
}

type fieldRequirement struct {
	Key      text `json:"key"`
	Operator text `json:"operator"`
	Value    text `json:"value"`
}

type labelRequirement struct {
	Key      text   `json:"key"`
	Operator text   `json:"operator"`
	Values   []text `json:"values"`
	Text     text   `json:"text"`
}

type identity struct {
	Name   text    `json:"name"`
	UID    text    `json:"uid"`
	Groups []text  `json:"groups"`
	Extra  []named `json:"extra"`
}

func describeUser(who user.Info) identity {
	return identity{
		Name:   text(who.GetName()),
		UID:    text(who.GetUID()),
		Groups: texts(who.GetGroups()),
		Extra:  entries(who.GetExtra()),
	}
}

func describeAttributes(asked authorizer.Attributes) attributes {
	described := attributes{
		Verb:        text(asked.GetVerb()),
		Group:       text(asked.GetAPIGroup()),
		Version:     text(asked.GetAPIVersion()),
		Resource:    text(asked.GetResource()),
		Subresource: text(asked.GetSubresource()),
		Namespace:   text(asked.GetNamespace()),
		Name:        text(asked.GetName()),
		Path:        text(asked.GetPath()),
		IsResource:  asked.IsResourceRequest(),
	}
	fields, err := asked.GetFieldSelector()
	described.FieldsError = err != nil
	for _, requirement := range fields {
		described.Fields = append(described.Fields, fieldRequirement{
			Key:      text(requirement.Field),
			Operator: text(requirement.Operator),
			Value:    text(requirement.Value),
		})
	}
	labels, err := asked.GetLabelSelector()
	described.LabelsError = err != nil
	for _, requirement := range labels {
		described.Labels = append(described.Labels, labelRequirement{
			Key:      text(requirement.Key()),
			Operator: text(requirement.Operator()),
			Values:   texts(requirement.ValuesUnsorted()),
			Text:     text(requirement.String()),
		})
	}
	return described
}

// recorder is the authorizer of one sequence: it answers by the policy of the step being played
// and writes down what it was asked.
type recorder struct {
	answers *answers
	outcome *outcome
}

func (r *recorder) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	asking := check{User: describeUser(asked.GetUser()), attributes: describeAttributes(asked)}
	r.outcome.Checks = append(r.outcome.Checks, asking)
	given := r.answers.to(&asking)
	var err error
	if given.Error != "" {
		err = errors.New(given.Error)
	}
	return decisions[given.Decision], given.Reason, err
}
