"""Parser of intents. It reports every problem at once, with its path."""

from collections.abc import Mapping, Sequence

from proxy.core.errors import OperatorError
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import ANY, UngrantableError, needed_checks
from proxy.core.rbac.intent.document_reader import DocumentReader
from proxy.core.rbac.intent.model import (
    ASSOCIATED_NODE,
    COLLECTION_VERBS,
    Intent,
    PermittedAction,
)
from proxy.core.rbac.model import (
    GROUP,
    SERVICE_ACCOUNT,
    USER,
    Subject,
)
from proxy.core.rbac.resources import BUILT_IN, APIResource, ResourceCatalog
from proxy.core.userinfo import (
    NO_EXTRA,
    Extra,
    UserInfo,
    is_subdomain,
    make_extra,
    service_account,
)

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_VERBS_WITHOUT_NAME = frozenset({"create", "deletecollection"})
_MODES = tuple(mode.value for mode in ImpersonationMode if mode is not ImpersonationMode.LEGACY)
_STAR = "*"
_INTENT_KEYS = (
    "name",
    "mode",
    "impersonators",
    "targets",
    "actions",
    "namespaces",
    "discovery",
    "exactVerbs",
)
_TARGET_KEYS = {
    ImpersonationMode.USER_INFO: "user",
    ImpersonationMode.SERVICE_ACCOUNT: "serviceAccount",
    ImpersonationMode.ARBITRARY_NODE: "node",
}


class IntentError(OperatorError):
    """An invalid intent. Each line has the path of a problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self._problems = list(problems)

    @property
    def lines(self) -> list[str]:
        """All problems."""
        return self._problems


def read_intent(document: object, catalog: ResourceCatalog = BUILT_IN) -> Intent:
    """Parse an intent. Raises IntentError."""
    reader = _Reader(catalog)
    intent = reader.intent(document)
    if intent is None or reader.problems:
        raise IntentError(reader.problems)
    refused = _ungrantable(intent)
    if refused:
        raise IntentError(refused)
    return intent


def _ungrantable(intent: Intent) -> list[str]:
    """Return the parts that no grant can allow, each with its path."""
    problems: dict[str, None] = {}
    for need in intent.needs():
        path = f"$.targets[{intent.targets.index(need.wanted_user)}]"
        if intent.mode is ImpersonationMode.ASSOCIATED_NODE:
            path = f"$.impersonators[{intent.impersonators.index(need.subject)}]"
        try:
            needed_checks(need)
        except UngrantableError as error:
            problems[f"{path}: {error}"] = None
    return list(problems)


class _Reader(DocumentReader):
    """Reads the parts of an intent, and collects their problems."""

    def __init__(self, catalog: ResourceCatalog) -> None:
        super().__init__()
        self._catalog = catalog

    def intent(self, document: object) -> Intent | None:
        """Return the intent, or None if there is a problem."""
        given = self.mapping(document, "$", _INTENT_KEYS)
        if given is None:
            return None
        mode = self._mode(given.get("mode"))
        namespaces = self._namespaces(given.get("namespaces"), "$.namespaces")
        intent = Intent(
            self._name(given.get("name")),
            mode or ImpersonationMode.USER_INFO,
            tuple(self.each(given.get("impersonators"), "$.impersonators", self._impersonator)),
            self._targets(given, mode),
            tuple(
                self.each(
                    given.get("actions"),
                    "$.actions",
                    lambda entry, path: self._permitted_action(entry, path, namespaces),
                )
            ),
            includes_discovery=self.flag(given, "discovery", default=True),
            is_exact=self.flag(given, "exactVerbs", default=False),
        )
        return None if self.problems else intent

    def _name(self, value: object) -> str:
        name = self.text(value, "$.name")
        if name and ("/" in name or "%" in name or name in {".", ".."}):
            self.error("$.name", "must not contain / or %")
        return name

    def _mode(self, value: object) -> ImpersonationMode | None:
        if value in _MODES:
            return ImpersonationMode(str(value))
        self.error("$.mode", f"must be one of {', '.join(_MODES)}")
        return None

    def _impersonator(self, entry: object, path: str) -> Subject | None:
        given = self.mapping(entry, path, ("user", "group", "serviceAccount"))
        if given is None:
            return None
        if len(given) != 1:
            self.error(path, "must name one of user, group and serviceAccount")
            return None
        ((key, value),) = given.items()
        name = self.text(value, f"{path}.{key}")
        if key != "serviceAccount":
            return Subject(USER if key == "user" else GROUP, name)
        account = service_account(f"system:serviceaccount:{name.replace('/', ':', 1)}")
        if account is None:
            self.error(f"{path}.{key}", "must be NAMESPACE/NAME")
            return None
        return Subject(SERVICE_ACCOUNT, account.name, account.namespace)

    def _targets(
        self, given: Mapping[str, object], mode: ImpersonationMode | None
    ) -> tuple[UserInfo, ...]:
        if mode is ImpersonationMode.ASSOCIATED_NODE:
            if "targets" in given:
                self.error(
                    "$.targets",
                    "associated-node has no targets: the target is the caller's own node",
                )
            return (ASSOCIATED_NODE,)
        if mode is None:
            return ()
        return tuple(
            self.each(
                given.get("targets"),
                "$.targets",
                lambda entry, path: self._target(entry, path, mode),
            )
        )

    def _target(self, entry: object, path: str, mode: ImpersonationMode) -> UserInfo | None:
        key = _TARGET_KEYS[mode]
        allowed = (
            (key, "uid", "groups", "extras") if mode is ImpersonationMode.USER_INFO else (key,)
        )
        given = self.mapping(entry, path, allowed)
        if given is None:
            return None
        name = self.text(given.get(key), f"{path}.{key}")
        if mode is ImpersonationMode.ARBITRARY_NODE:
            return self._node(name, f"{path}.{key}")
        if mode is ImpersonationMode.SERVICE_ACCOUNT:
            return self._account(name, f"{path}.{key}")
        uid = self.text(given["uid"], f"{path}.uid") if "uid" in given else ""
        groups = self.texts(given.get("groups", []), f"{path}.groups")
        extra = self._extras(given["extras"], f"{path}.extras") if "extras" in given else NO_EXTRA
        return UserInfo(
            _expand_star(name), _expand_star(uid), tuple(map(_expand_star, groups)), extra
        )

    def _node(self, name: str, path: str) -> UserInfo | None:
        if name and name != _STAR and not is_subdomain(name):
            self.error(path, f"{name} is not a node name (without the prefix system:node:)")
            return None
        return UserInfo(f"system:node:{_expand_star(name)}")

    def _account(self, name: str, path: str) -> UserInfo | None:
        namespace, _, account = name.partition("/")
        username = f"system:serviceaccount:{namespace}:{_expand_star(account)}"
        if service_account(username) is None:
            self.error(path, "must be NAMESPACE/NAME, or NAMESPACE/* for all of a namespace")
            return None
        return UserInfo(username)

    def _extras(self, value: object, path: str) -> Extra:
        if not isinstance(value, Mapping):
            self.error(path, "must be a mapping of keys to lists of strings")
            return NO_EXTRA
        found = {
            str(key): [_expand_star(text) for text in self.texts(values, f"{path}[{str(key)!r}]")]
            for key, values in value.items()
        }
        return make_extra(found)

    def _permitted_action(
        self, entry: object, path: str, namespaces: tuple[str, ...] | None
    ) -> PermittedAction | None:
        given = self.mapping(entry, path, ("verbs", "resources", "paths", "names", "namespaces"))
        if given is None:
            return None
        if ("resources" in given) == ("paths" in given):
            self.error(path, "must have either resources or paths")
            return None
        if "paths" in given:
            return self._permitted_path(given, path)
        verbs = self._verbs(given, path, _VERBS)
        names = self.texts(given.get("names", []), f"{path}.names")
        found = tuple(self.each(given["resources"], f"{path}.resources", self._resource))
        if "namespaces" in given:
            namespaces = self._namespaces(given["namespaces"], f"{path}.namespaces")
        if namespaces is None and any(resource.is_namespaced for resource in found):
            self.error(path, 'needs namespaces: a list, or "*" for all of them')
        self._check_verbs(verbs, found, path)
        self._check_names(verbs, names, found, path)
        return PermittedAction(verbs, found, (), tuple(names), namespaces or ())

    def _permitted_path(self, given: Mapping[str, object], path: str) -> PermittedAction:
        for key in ("names", "namespaces"):
            if key in given:
                self.error(f"{path}.{key}", "is not allowed with paths")
        paths = self.some_texts(given["paths"], f"{path}.paths")
        for position, text in enumerate(paths):
            if not text.startswith("/") or _STAR in text.rstrip(_STAR):
                self.error(
                    f"{path}.paths[{position}]",
                    "must begin with /; * is a wildcard only at its end",
                )
        return PermittedAction(self._verbs(given, path, _METHODS), (), tuple(paths))

    def _verbs(
        self, given: Mapping[str, object], path: str, known: Sequence[str]
    ) -> tuple[str, ...]:
        verbs = self.some_texts(given.get("verbs"), f"{path}.verbs")
        for position, verb in enumerate(verbs):
            if verb not in known:
                hint = "no request has this verb; it must be one of " + ", ".join(known)
                self.error(f"{path}.verbs[{position}]", f"{verb}: {hint}")
        return tuple(verbs)

    def _check_verbs(
        self, verbs: Sequence[str], resources: Sequence[APIResource], path: str
    ) -> None:
        if verbs and COLLECTION_VERBS.issuperset(verbs):
            for resource in resources:
                if "/" in resource.name:
                    listed = " or ".join(verbs)
                    self.error(f"{path}.verbs", f"no request has the verb {listed} on {resource}")

    def _check_names(
        self,
        verbs: Sequence[str],
        names: Sequence[str],
        resources: Sequence[APIResource],
        path: str,
    ) -> None:
        nameless = [verb for verb in verbs if verb in _VERBS_WITHOUT_NAME]
        if names and nameless and any("/" not in resource.name for resource in resources):
            listed = " and ".join(nameless)
            self.error(f"{path}.names", f"requests with the verb {listed} have no name to match")

    def _resource(self, entry: object, path: str) -> APIResource | None:
        text = self.text(entry, path)
        named, slash, subresource = text.partition("/")
        resource, _, group = named.partition(".")
        name = f"{resource}{slash}{subresource}"
        if _STAR in text or not resource or (slash and not subresource):
            self.error(path, f"{text}: must be RESOURCE[.GROUP][/SUBRESOURCE], without stars")
            return None
        known = self._catalog.find(group, name)
        if known is not None or not self._catalog.knows_group(group):
            return known or APIResource(group, name, is_namespaced=True)
        meant = self._catalog.suggest(group, name)
        hint = f"; did you mean {meant}?" if meant else ""
        self.error(path, f"{text}: there is no such resource{hint}")
        return None

    def _namespaces(self, value: object, path: str) -> tuple[str, ...] | None:
        """Return namespaces, an empty tuple for all of them, and None if not given."""
        if value is None:
            return None
        if value in (_STAR, [_STAR]):
            return ()
        names = self.some_texts(value, path)
        for position, name in enumerate(names):
            if service_account(f"system:serviceaccount:{name}:any") is None:
                self.error(f"{path}[{position}]", f"{name}: is not a valid name of a namespace")
        return tuple(names)


def _expand_star(name: str) -> str:
    return ANY if name == _STAR else name
