"""Forms about endpoints. What a form shows includes no secret: not in a field, not in a hidden one."""

from typing import Any

from django import forms

from .. import conf
from ..models import Endpoint
from .action_form import ActionForm, LinesField
from .json_field import JsonField

COMMON = ("url", "method", "description", "events", "identity_ids", "headers")
LIMITS = ("policy", "policy_overrides", "ordering", "max_in_flight", "rate_limit")


def without_secrets(headers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return stored headers without secret values, not even in their sealed form."""
    return [{name: value for name, value in entry.items() if name != "sealed"} for entry in headers]


ORDERINGS = {
    "none": "none: as they come",
    "fifo": "fifo: strictly one after another",
    "subject": "subject: one after another of the same owner",
}


def _policies() -> list[tuple[str, str]]:
    return [(name, name) for name in conf.policies()]


class EndpointForm(ActionForm[Endpoint]):
    """What registering and changing have in common. Each field remembers, hidden, what it showed at first."""

    url = forms.CharField(label="URL", max_length=2048, widget=forms.TextInput(attrs={"size": 80}))
    events = LinesField(required=False, help_text="One a line: a type, order.* or *. None: receives nothing.")
    identity_ids = JsonField(
        required=False, help_text="A list of identities; empty: no filter; []: receives nothing."
    )
    headers = JsonField(
        required=False,
        help_text='[{"name": "X-Team", "value": "…", "secret": true}]; a secret without value keeps its own.',
    )
    method = forms.ChoiceField(choices=[(each.value, each.value) for each in Endpoint.Method])
    policy = forms.ChoiceField(choices=_policies)
    policy_overrides = JsonField(
        required=False, help_text='Own values in place of the policy\'s: {"waits": [30, 300]}.'
    )
    ordering = forms.ChoiceField(
        choices=list(ORDERINGS.items()), help_text="Holds for events that are fanned out from now on."
    )
    rate_limit = JsonField(required=False, help_text='{"per_second": 5, "burst": 10}; empty: no limit.')
    description = forms.CharField(required=False, max_length=500, widget=forms.TextInput(attrs={"size": 80}))

    class Meta:
        model = Endpoint
        fields: tuple[str, ...] = (*COMMON, *LIMITS)

    def values(self) -> dict[str, Any]:
        """Return the fields by their names in the actions; JSON left empty means the default."""
        empty: dict[str, Any] = {"headers": [], "policy_overrides": {}}
        return {
            name: empty.get(name) if value is None else value for name, value in self.cleaned_data.items()
        }


class RegisterForm(EndpointForm):
    """A new endpoint."""

    ordering = forms.TypedChoiceField(
        required=False, empty_value=None, choices=[("", "as the policy says"), *ORDERINGS.items()]
    )
    max_in_flight = forms.IntegerField(
        required=False, help_text="Empty: 1 where the ordering is fifo, else as the policy says."
    )
    tenant_id = forms.CharField(required=False, max_length=128, empty_value=None)
    partner_id = forms.CharField(
        required=False, max_length=128, empty_value=None, help_text="Neither: hears of all tenants' events."
    )

    class Meta(EndpointForm.Meta):
        fields = ("tenant_id", "partner_id", "environment", *COMMON, *LIMITS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["policy"] = conf.current().DEFAULT_POLICY
        self.initial["ordering"] = self.initial["max_in_flight"] = None


class UpdateForm(EndpointForm):
    """Changes to an endpoint: only fields that the person touched are sent on."""

    enabled = forms.BooleanField(required=False)
    retarget_pending = forms.BooleanField(
        required=False, help_text="With a new URL: send it what is still open for the present one."
    )

    class Meta(EndpointForm.Meta):
        fields: tuple[str, ...] = (*COMMON, *LIMITS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["enabled"] = self.instance.state.enabled
        self.initial["headers"] = without_secrets(self.instance.headers)
        # A policy that the operator has taken away must not turn into another one unasked.
        names = {self.instance.policy, *conf.policies()}
        self.fields["policy"].choices = [(name, name) for name in sorted(names)]  # type: ignore[attr-defined]
        for name, each in self.fields.items():
            each.show_hidden_initial = name != "retarget_pending"

    def clean(self) -> dict[str, Any]:
        """Refuse a change to what somebody else has changed since the page was opened."""
        for name in self.changes().keys() - {"retarget_pending"}:
            seen = self.data.get(self.add_initial_prefix(name))
            if self.fields[name].has_changed(self.initial.get(name), seen):
                self.add_error(
                    name, "Somebody changed this since you opened the page. Open it anew, then decide."
                )
        return self.cleaned_data

    def changes(self) -> dict[str, Any]:
        """Return the fields that the person touched."""
        values = self.values()
        changed = {name: values[name] for name in self.changed_data if name in values}
        if "url" not in changed:
            changed.pop("retarget_pending", None)
        return changed


class ConfirmForm(forms.Form):
    """Nothing to fill in."""


class RotateForm(forms.Form):
    """How long the present secret signs along."""

    overlap_hours = forms.IntegerField(
        min_value=0,
        max_value=168,
        initial=24,
        help_text="The present secret signs along this long; 0 ends it at once, for one that leaked.",
    )
