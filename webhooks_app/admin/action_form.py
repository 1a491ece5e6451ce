"""Forms whose values go to an action: the action validates, its errors come back to the fields."""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django import forms
from django.db.models import Model

from ..exceptions import ActionError, InvalidRequest

M = TypeVar("M", bound=Model)

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm
else:

    class _ModelForm(forms.ModelForm, Generic[M]):
        """Django's ModelForm is generic for type checkers only."""


class ActionForm(_ModelForm[M]):
    """Never saves anything itself."""

    def _post_clean(self) -> None:
        """Leave the instance alone: an action writes the row, and only what was changed."""

    def refuse(self, error: ActionError) -> None:
        """Show why an action refused, at the fields it named."""
        refuse(self, error)


def refuse(form: forms.BaseForm, error: ActionError) -> None:
    """Show in a form why an action refused, at the fields it named."""
    if not isinstance(error, InvalidRequest):
        form.add_error(None, error.told)
        return
    for path, message in error.errors:
        name, _, rest = path.partition("/")
        form.add_error(name if name in form.fields else None, f"{rest}: {message}" if rest else message)


class LinesField(forms.CharField):
    """A list of texts, one on each line."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 60})

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        """Return the lines that are not blank."""
        lines = value if isinstance(value, list) else (value or "").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        """Return the lines as one text."""
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare the lines."""
        return self.to_python(initial) != self.to_python(data)

    def validate(self, value: Any) -> None:
        """Accept no lines at all."""

    def run_validators(self, value: Any) -> None:
        """Leave the lines to the action."""
