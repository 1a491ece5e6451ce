"""What an error looks like (RFC 9457), for the OpenAPI document; `api.problems` writes it."""

from rest_framework import serializers


class ProblemError(serializers.Serializer):
    """One fault of a request."""

    path = serializers.CharField(
        allow_blank=True, help_text="Where, such as `headers/0/name`; empty for the request as a whole."
    )
    message = serializers.CharField()


class Problem(serializers.Serializer):
    """Why a request failed."""

    type = serializers.CharField(help_text="Where `code` is explained.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField(help_text="The word to decide by.")
    retryable = serializers.BooleanField(help_text="Whether the same request may succeed later.")
    fix = serializers.CharField(help_text="What the caller can do.")
    request_id = serializers.CharField()
    errors = ProblemError(many=True)
    details = serializers.DictField(help_text="More for programs, such as `required` permissions.")
